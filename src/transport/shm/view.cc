#include "transport/shm/view.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "transport/fence.h"
#include "transport/poller.h"
#include "transport/shm/mapping.h"

namespace unisono::transport::shm {

Result<std::shared_ptr<PeerView>> PeerView::map(const Fd& memfd, std::uint64_t bytes,
                                                std::shared_ptr<const Fd> doorbell) {
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

void PeerView::wake() noexcept {
  full_fence();
  wake_after_fence();
}

void PeerView::wake_after_fence() noexcept {
  if (parked_->load(std::memory_order_relaxed) != 0) ring(*doorbell_);
}

bool PeerView::alive() const noexcept {
  return !gone_.load(std::memory_order_acquire) && (!theirs_ || theirs_->closed.load(std::memory_order_acquire) == 0);
}

}  // namespace unisono::transport::shm
