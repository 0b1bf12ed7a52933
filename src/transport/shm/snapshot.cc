#include "transport/shm/snapshot.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/free_memory.h"
#include "transport/shm/mapping.h"

namespace unisono::transport::shm {

namespace {

int access_of(const Mapping& m) noexcept { return (m.readable ? PROT_READ : 0) | (m.writable ? PROT_WRITE : 0); }

// Other threads may be writing to what is copied, as with any fork(): so the kernel reads it, not
// we.

/// Write `bytes` from `at` to the file.
Status write_all(int fd, const std::byte* at, std::uint64_t bytes, std::uint64_t offset) noexcept {
  for (std::uint64_t done = 0; done < bytes;) {
    const long wrote = ::syscall(SYS_pwrite64, fd, at + done, bytes - done, static_cast<off_t>(offset + done));
    if (wrote > 0)
      done += static_cast<std::uint64_t>(wrote);
    else if (wrote == 0 || errno != EINTR)
      return Status::system("cannot copy to it", wrote == 0 ? EIO : errno);
  }
  return {};
}

/// Whether `copy` is what lies at `at`; false where the kernel does not tell.
bool same(const std::byte* copy, std::byte* at, std::uint64_t bytes) noexcept {
  std::array<std::byte, 32 << 10> now;  // stays in the first cache
  for (std::uint64_t done = 0; done < bytes; done += now.size()) {
    const std::size_t piece = std::min<std::uint64_t>(now.size(), bytes - done);
    const iovec to{now.data(), piece}, from{at + done, piece};
    const long read = ::syscall(SYS_process_vm_readv, ::getpid(), &to, 1, &from, 1, 0);
    if (read != static_cast<long>(piece) || std::memcmp(copy + done, now.data(), piece) != 0) return false;
  }
  return true;
}

/// Nobody can touch what lies there.
int hide(std::uintptr_t begin, std::uintptr_t end) noexcept {
  constexpr int kHow = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  return ::mmap(reinterpret_cast<void*>(begin), end - begin, PROT_NONE, kHow, -1, 0) == MAP_FAILED ? errno : 0;
}

Status commit(int fd, std::uint64_t bytes) noexcept {
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0) return Status::system("cannot size it", errno);
  for (std::uint64_t done = 0; done < bytes;) {
    // In pieces: a signal restarts an interrupted one from its beginning.
    const std::uint64_t piece = std::min<std::uint64_t>(4 << 20, bytes - done);
    if (::fallocate(fd, 0, static_cast<off_t>(done), static_cast<off_t>(piece)) == 0)
      done += piece;
    else if (errno != EINTR)
      return Status::system("the machine's, or the container's, memory is full", errno);
  }
  return {};
}

}  // namespace

Result<std::vector<Snapshot::Piece>> Snapshot::pieces_of(std::span<const Lent> all) {
  std::vector<Piece> pieces;
  pieces.reserve(2 * all.size());
  std::uint64_t offset = 0;
  const int unread =
      for_each_piece(all, [&](const Lent&, std::uintptr_t begin, std::uintptr_t end, const Mapping& mapping) {
        if (!mapping.readable) return;  // its child cannot look at it either
        pieces.push_back({reinterpret_cast<std::byte*>(begin), end - begin, offset});
        offset += end - begin;
      });
  if (unread != 0) return Status::system("cannot find out what is mapped (/proc/self/maps)", unread);
  return pieces;
}

Result<Snapshot> Snapshot::take(std::span<const Lent> all) {
  auto pieces = pieces_of(all);
  if (!pieces) return pieces.status();
  Snapshot made;
  made.pieces_ = std::move(pieces).value();
  if (made.pieces_.empty()) return made;
  made.bytes_ = made.pieces_.back().offset + made.pieces_.back().bytes;
  // What passes a limit of memory is ended by the system, and it would be the parent.
  if (const std::uint64_t free = free_memory(); free < made.bytes_)
    return Status::system(fmt::format("{} bytes are wanted, {} of memory are free", made.bytes_, free), ENOMEM);
  made.file_ = Fd(::memfd_create("unisono-fork", MFD_CLOEXEC));
  if (!made.file_) return Status::system("cannot create shared memory (memfd_create)", errno);
  UNISONO_TRY(commit(made.file_.get(), made.bytes_));
  made.memory_ = map_memfd(made.file_.get(), made.bytes_, true);
  if (made.memory_ == nullptr) return Status::system("cannot map it", errno);
  ::madvise(made.memory_, made.bytes_, MADV_DONTFORK);
  map_now(made.memory_, made.bytes_, true);
  for (const Piece& piece : made.pieces_) UNISONO_TRY(write_all(made.file_.get(), piece.at, piece.bytes, piece.offset));
  return made;
}

Snapshot::Snapshot(Snapshot&& other) noexcept
    : file_(std::move(other.file_)),
      pieces_(std::move(other.pieces_)),
      memory_(std::exchange(other.memory_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

Snapshot::~Snapshot() {
  if (memory_ != nullptr) ::munmap(memory_, bytes_);
}

bool Snapshot::still_right(std::span<const Lent> all) const noexcept {
  if (!file_) return false;
  try {
    const auto now = pieces_of(all);
    return now && *now == pieces_ && std::ranges::all_of(pieces_, [&](const Piece& piece) {
             return same(memory_ + piece.offset, piece.at, piece.bytes);
           });
  } catch (const std::exception&) {
    return false;
  }
}

int Snapshot::put(std::span<const Lent> all) const noexcept {
  int failed = 0;
  const int unread = for_each_piece(all, [&](const Lent&, std::uintptr_t begin, std::uintptr_t end, const Mapping& m) {
    if (const int error = hide(begin, end); error != 0) failed = error;  // what was not there then has no copy
    for (const Piece& piece : pieces_) {
      const auto at = reinterpret_cast<std::uintptr_t>(piece.at);
      const std::uintptr_t from = std::max(begin, at), to = std::min(end, at + piece.bytes);
      if (from >= to) continue;
      const auto offset = static_cast<off_t>(piece.offset + (from - at));
      constexpr int kHow = MAP_PRIVATE | MAP_FIXED;
      if (::mmap(reinterpret_cast<void*>(from), to - from, access_of(m), kHow, file_.get(), offset) == MAP_FAILED)
        failed = errno;
    }
  });
  return failed != 0 ? failed : unread;
}

void Snapshot::leave_to_parent() noexcept {
  file_.reset();
  memory_ = nullptr;  // it is not mapped here
}

int put_nothing(std::span<const Lent> all) noexcept {
  int failed = 0;
  const int unread = for_each_piece(all, [&](const Lent&, std::uintptr_t begin, std::uintptr_t end, const Mapping&) {
    if (const int error = hide(begin, end); error != 0) failed = error;
  });
  return failed != 0 ? failed : unread;
}

}  // namespace unisono::transport::shm
