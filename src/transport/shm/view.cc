#include "transport/shm/view.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "transport/fence.h"
#include "transport/poller.h"
#include "transport/shm/mapping.h"

namespace unisono::transport::shm {

namespace {

/// 0, or an errno. In one call, as long as that copies all.
int read_process(pid_t process, std::span<const MutablePart> parts, std::uint64_t from) noexcept {
  constexpr std::size_t kAtOnce = 8;
  std::size_t done = 0;  // of the first part that is left
  while (!parts.empty()) {
    std::array<iovec, kAtOnce> here;
    std::size_t count = 0, bytes = 0;
    for (; count < std::min(parts.size(), kAtOnce); count++) {
      const MutablePart left = parts[count].subspan(count == 0 ? done : 0);
      here[count] = {left.data(), left.size()};
      bytes += left.size();
    }
    const iovec there{reinterpret_cast<void*>(from), bytes};
    const ssize_t n = bytes == 0 ? 0 : ::process_vm_readv(process, here.data(), count, &there, 1, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 || (n == 0 && bytes > 0)) return n < 0 ? errno : EFAULT;
    from += static_cast<std::uint64_t>(n), done += static_cast<std::size_t>(n);
    for (; !parts.empty() && done >= parts.front().size(); parts = parts.subspan(1)) done -= parts.front().size();
  }
  return 0;
}

static_assert(sizeof(Area) == sizeof(iovec) && offsetof(Area, bytes) == offsetof(iovec, iov_len));

/// The same in the other direction. The kernel copies the list of areas when the call begins, from wherever it lies.
int write_process(pid_t process, std::span<const Area> areas, const std::byte* from, std::size_t bytes) noexcept {
  const iovec here{const_cast<std::byte*>(from), bytes};  // which is only read
  const ssize_t n =
      ::process_vm_writev(process, &here, 1, reinterpret_cast<const iovec*>(areas.data()), areas.size(), 0);
  if (n < 0) return errno;
  return n == static_cast<ssize_t>(bytes) ? 0 : n == 0 ? EFAULT : EIO;
}

/// Whether process `owner` is the one whose segment begins so, and the kernel (user, Yama, seccomp) lets us read its memory.
bool may_read(pid_t owner, const SegmentHeader& header) noexcept {
  struct {
    std::uint64_t base, nonce;
  } found{};
  const std::uint64_t at = header.base + offsetof(SegmentHeader, base);
  const MutablePart to = std::as_writable_bytes(std::span(&found, 1));
  return read_process(owner, {&to, 1}, at) == 0 && found.base == header.base && found.nonce == header.nonce;
}

/// The same for writing: to a word that is there for that. To be asked of who may be read.
bool may_write(pid_t owner, const SegmentHeader& header) noexcept {
  const std::uint32_t word = 1;
  const Area there{header.base + offsetof(SegmentHeader, tried), sizeof word};
  return write_process(owner, {&there, 1}, reinterpret_cast<const std::byte*>(&word), sizeof word) == 0;
}

}  // namespace

Result<std::shared_ptr<PeerView>> PeerView::map(const Fd& memfd, std::uint64_t bytes,
                                                std::shared_ptr<const Fd> doorbell, pid_t owner) {
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const int seals = ::fcntl(memfd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return Status::authentication("the peer's shared memory is not sealed");
  struct stat about{};
  if (::fstat(memfd.get(), &about) != 0) return Status::system("cannot examine the peer's shared memory", errno);
  if (about.st_size < static_cast<off_t>(kHeaderBytes) || static_cast<std::uint64_t>(about.st_size) != bytes)
    return Status::authentication(fmt::format("the peer's shared memory has {} bytes, not {}", about.st_size, bytes));

  Fd kept(::fcntl(memfd.get(), F_DUPFD_CLOEXEC, 0));
  if (!kept) return Status::system("cannot keep the peer's shared memory", errno);
  std::byte* base = map_memfd(memfd.get(), bytes, false);
  if (base == nullptr)
    return Status::system(fmt::format("cannot map {} bytes of the peer's shared memory", bytes), errno);
  std::shared_ptr<PeerView> view(new PeerView(base, bytes, nullptr, std::move(doorbell)));
  view->memfd_ = std::move(kept);
  const auto* header = reinterpret_cast<const SegmentHeader*>(base);
  if (header->magic != kMagic || header->version != kVersion)
    return Status::authentication(
        "the peer's shared memory does not begin as ours: does it run another version of unisono?");
  if (owner > 0 && may_read(owner, *header)) {
    view->process_ = view->thread_ = owner;
    view->writes_ = may_write(owner, *header);
  }
  return view;
}

std::shared_ptr<PeerView> PeerView::of(std::shared_ptr<Segment> segment, std::shared_ptr<const Fd> doorbell) {
  const std::byte* base = segment->base();
  const std::uint64_t bytes = segment->bytes();
  return std::shared_ptr<PeerView>(new PeerView(base, bytes, std::move(segment), std::move(doorbell)));
}

PeerView::PeerView(const std::byte* base, std::uint64_t bytes, std::shared_ptr<Segment> owner,
                   std::shared_ptr<const Fd> doorbell)
    : base_(base),
      bytes_(bytes),
      owner_(std::move(owner)),
      doorbell_(std::move(doorbell)),
      parked_(&reinterpret_cast<const SegmentHeader*>(base)->parked) {}

PeerView::~PeerView() {
  if (!owner_) ::munmap(const_cast<std::byte*>(base_), bytes_);
  if (writable_ != nullptr) ::munmap(writable_, bytes_);
}

const std::byte* PeerView::at(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  return offset <= bytes_ && bytes <= bytes_ - offset ? base_ + offset : nullptr;
}

std::byte* PeerView::writable(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (at(offset, bytes) == nullptr) return nullptr;
  if (owner_) return owner_->base() + offset;
  const std::lock_guard lock(writable_mutex_);
  if (writable_ == nullptr) writable_ = map_memfd(memfd_.get(), bytes_, true);
  return writable_ == nullptr ? nullptr : writable_ + offset;
}

void PeerView::map_now(std::uint64_t offset, std::uint64_t bytes, bool write) noexcept {
  if (owner_) return;
  const std::byte* const there = write ? writable(offset, bytes) : at(offset, bytes);
  if (there != nullptr) shm::map_now(there, bytes, write);
}

/// A thread that rests, once there is one. What it is called in another PID namespace may be somebody else here.
pid_t PeerView::whom() noexcept {
  const auto& header = *reinterpret_cast<const SegmentHeader*>(base_);
  const pid_t resting = header.resting.load(std::memory_order_relaxed);
  if (resting != considered_.load(std::memory_order_relaxed)) {
    thread_.store(resting > 0 && may_read(resting, header) ? resting : process_, std::memory_order_relaxed);
    considered_.store(resting, std::memory_order_relaxed);
  }
  return thread_.load(std::memory_order_relaxed);
}

/// `copy` of the thread that is to be asked; of the process where that has just ended.
template <class Copy>
int PeerView::by_any_thread(Copy&& copy) noexcept {
  const pid_t thread = whom();
  const int error = copy(thread);
  return error == ESRCH && thread != process_ ? copy(process_) : error;
}

int PeerView::read_memory(std::span<const MutablePart> parts, std::uint64_t from) noexcept {
  if (!owner_ && process_ == 0) return EPERM;
  if (!owner_) return by_any_thread([&](pid_t thread) { return read_process(thread, parts, from); });
  for (const MutablePart& part : parts) {
    std::memcpy(part.data(), reinterpret_cast<const void*>(from), part.size());
    from += part.size();
  }
  return 0;
}

int PeerView::write_memory(std::span<const Area> areas, const std::byte* from, std::size_t bytes) noexcept {
  if (!owner_ && !writes_) return EPERM;
  if (!owner_) return by_any_thread([&](pid_t thread) { return write_process(thread, areas, from, bytes); });
  const std::size_t all = bytes;
  for (const Area& area : areas) {
    const std::size_t n = std::min<std::size_t>(area.bytes.load(), bytes);
    if (n > 0) std::memcpy(reinterpret_cast<void*>(area.address.load()), from, n);
    from += n, bytes -= n;
  }
  return bytes == 0 ? 0 : bytes == all ? EFAULT : EIO;
}

std::uint64_t PeerView::address_of(std::uint64_t offset) const noexcept {
  return reinterpret_cast<const SegmentHeader*>(base_)->base + offset;
}

void PeerView::wake() noexcept {
  full_fence();
  wake_after_fence();
}

void PeerView::wake_after_fence() noexcept {
  if (parked_->load(std::memory_order_relaxed) != 0) ring(*doorbell_);
}

int PeerView::waits_on() const noexcept {
  // No number that a processor has comes out of one that is too large for it: nobody is compared with such a one and found equal.
  return static_cast<int>(reinterpret_cast<const SegmentHeader*>(base_)->processor.load(std::memory_order_relaxed) - 1);
}

bool PeerView::alive() const noexcept {
  return !gone_.load(std::memory_order_acquire) && (!theirs_ || theirs_->closed.load(std::memory_order_acquire) == 0);
}

}  // namespace unisono::transport::shm
