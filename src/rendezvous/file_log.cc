#include "rendezvous/file_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "rendezvous/store_protocol.h"

namespace unisono::rendezvous {
namespace {

constexpr std::string_view kFileMagic = "unisono1";
constexpr std::size_t kHeadBytes = 8;   // length and checksum
constexpr std::size_t kFixedBytes = 5;  // operation and length of the key
constexpr std::size_t kMaxRecordBytes = kFixedBytes + kMaxKeyBytes + kMaxValueBytes;

std::uint32_t crc32(std::span<const std::byte> bytes) noexcept {
  std::uint32_t crc = 0xffffffffu;
  for (const std::byte b : bytes) {
    crc ^= static_cast<std::uint32_t>(b);
    for (int i = 0; i < 8; i++) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
  }
  return ~crc;
}

void put_u32(Bytes& to, std::uint32_t v) {
  for (int i = 0; i < 4; i++) to.push_back(static_cast<std::byte>((v >> (8 * i)) & 0xff));
}

std::uint32_t get_u32(std::span<const std::byte> from) noexcept {
  std::uint32_t v = 0;
  for (std::size_t i = 0; i < 4; i++) v |= static_cast<std::uint32_t>(from[i]) << (8 * i);
  return v;
}

}  // namespace

Status FileLog::failed(std::string_view what) const {
  return Status::system(fmt::format("file store {}: cannot {}", path_, what), errno);
}

bool FileLog::changed() const noexcept {
  // Opened, not only looked at: an NFS client answers stat from a cache that is seconds old.
  const Fd fd(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat s{};
  // An error counts as a change, so that the next transaction reports it.
  return !fd || ::fstat(fd.get(), &s) != 0 || s.st_size != read_ || (inode_ && s.st_ino != *inode_);
}

Status FileLog::open_and_lock(Duration patience) {
  // A fresh open each time revalidates an NFS client's cache. No symbolic links: the path may be in a shared directory.
  fd_ = Fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd_) return failed("open it");
  const TimePoint deadline = saturating_add(std::chrono::steady_clock::now(), patience);
  auto pause = std::chrono::microseconds(100);
  // flock has no timeout of its own, and a stopped process must not hold up the others for ever: so it is asked
  // repeatedly.
  while (::flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return failed("lock it (does its file system support flock?)");
    if (std::chrono::steady_clock::now() >= deadline)
      return Status::timeout(fmt::format("file store {}: another process has held its lock for {:.1f} s", path_,
                                         std::chrono::duration<double>(patience).count()));
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10000));
  }
  return {};
}

Status FileLog::check_same_file() {
  struct stat s{};
  if (::fstat(fd_.get(), &s) != 0) return failed("look at it");
  if (!S_ISREG(s.st_mode)) return Status::invalid(fmt::format("file store {}: it is not a regular file", path_));
  if ((inode_ && *inode_ != s.st_ino) || s.st_size < read_)
    return Status::system(fmt::format("file store {}: the file was replaced or cut while the job was using it", path_),
                          0);
  inode_ = s.st_ino;
  return {};
}

Status FileLog::write_all(std::span<const std::byte> bytes) {
  off_t at = read_;
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_.get(), bytes.data(), bytes.size(), at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const Status why = failed("write to it");
      if (::ftruncate(fd_.get(), read_) != 0) return why.with_context("and what was half-written stays");
      return why;
    }
    at += n;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  read_ = at;
  return {};
}

Status FileLog::read_new(const Apply& apply) {
  struct stat s{};
  if (::fstat(fd_.get(), &s) != 0) return failed("look at it");
  Bytes bytes(static_cast<std::size_t>(s.st_size - read_));
  for (std::size_t have = 0; have < bytes.size();) {
    const ssize_t n = ::pread(fd_.get(), bytes.data() + have, bytes.size() - have, read_ + static_cast<off_t>(have));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return failed("read it");
    if (n == 0) return Status::system(fmt::format("file store {}: it shrank while it was locked", path_), 0);
    have += static_cast<std::size_t>(n);
  }
  std::span<const std::byte> rest(bytes);
  if (read_ == 0) {
    const auto magic = std::as_bytes(std::span(kFileMagic));
    const std::size_t n = std::min(rest.size(), magic.size());
    if (!std::equal(magic.begin(), magic.begin() + static_cast<std::ptrdiff_t>(n), rest.begin()))
      return Status::invalid(
          fmt::format("file store {}: the file is there and is not a unisono store; name another one", path_));
    if (n < magic.size()) return write_all(magic);  // new, or its creator was killed while it wrote the magic
    rest = rest.subspan(n);
    read_ += static_cast<off_t>(n);
  }
  while (rest.size() >= kHeadBytes) {
    const std::size_t length = get_u32(rest);
    if (length < kFixedBytes || length > kMaxRecordBytes || rest.size() - kHeadBytes < length) break;
    const auto record = rest.subspan(kHeadBytes, length);
    const std::size_t key_bytes = get_u32(record.subspan(1));
    if (crc32(record) != get_u32(rest.subspan(4)) || key_bytes > length - kFixedBytes) break;
    const auto key = record.subspan(kFixedBytes, key_bytes);
    apply(static_cast<FileRecord>(record[0]), {reinterpret_cast<const char*>(key.data()), key.size()},
          record.subspan(kFixedBytes + key_bytes));
    rest = rest.subspan(kHeadBytes + length);
    read_ += static_cast<off_t>(kHeadBytes + length);
  }
  // What is left was never acknowledged: its writer died under the lock that is ours now.
  if (!rest.empty() && ::ftruncate(fd_.get(), read_) != 0) return failed("cut off a half-written record");
  return {};
}

Status FileLog::append(FileRecord kind, std::string_view key, std::span<const std::byte> value) {
  Bytes record{static_cast<std::byte>(kind)};
  put_u32(record, static_cast<std::uint32_t>(key.size()));
  const auto key_bytes = std::as_bytes(std::span(key));
  record.insert(record.end(), key_bytes.begin(), key_bytes.end());
  record.insert(record.end(), value.begin(), value.end());
  Bytes framed;
  put_u32(framed, static_cast<std::uint32_t>(record.size()));
  put_u32(framed, crc32(record));
  framed.insert(framed.end(), record.begin(), record.end());
  return write_all(framed);
}

Status FileLog::transact(const Apply& apply, const std::function<Status()>& change, Duration patience) {
  UNISONO_TRY(open_and_lock(patience));
  Status status = check_same_file();
  if (status.ok()) status = read_new(apply);
  if (status.ok()) status = change();
  fd_.reset();  // closing gives the lock back, and over NFS pushes what was written to the server first
  return status;
}

}  // namespace unisono::rendezvous
