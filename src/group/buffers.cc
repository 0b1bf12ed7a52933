#include "group/buffers.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "unisono/buffer.hpp"

namespace unisono::detail {

namespace {

constexpr std::uint64_t kPage = 4096, kHugePage = 2 << 20;

/// What an allocation of `bytes` takes, so that those of about one size can follow each other in one place. Whole pages, which a forked child, or the program after
/// a failure, gets copies of.
std::uint64_t rounded(std::uint64_t bytes) {
  const std::uint64_t unit = bytes < kHugePage ? kPage : kHugePage;
  return (std::max<std::uint64_t>(bytes, 1) + unit - 1) / unit * unit;
}

}  // namespace

std::uint64_t segment_address_space() {
  constexpr std::uint64_t kLeast = 256 << 20;
  const auto limited = [](auto resource) {
    rlimit limit{};
    return ::getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  };
  // With a limit every rank's segment counts against it here, and a file's size counts as if it were full.
  if (limited(RLIMIT_AS) || limited(RLIMIT_FSIZE)) return kLeast;
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return kLeast;
  return std::max(kLeast, rounded(static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page)));
}

Allocation::Allocation(std::shared_ptr<BufferPool> pool, std::byte* data, std::size_t bytes) noexcept
    : pool_(std::move(pool)), data_(data), bytes_(bytes) {}

Allocation::~Allocation() {
  if (process_.here())
    pool_->give_back(data_, rounded(bytes_));
  else
    new std::shared_ptr<BufferPool>(std::move(pool_));  // the segment is the parent's
}

bool Allocation::shared() const noexcept { return pool_->shared() && !taken_over_.load(std::memory_order_relaxed); }

bool Allocation::take_over() noexcept {
  if (!pool_->shared() || taken_over_.exchange(true)) return true;
  return pool_->take_over(data_, rounded(bytes_));
}

BufferPool::~BufferPool() {
  for (const auto& [bytes, data] : kept_) release(data, bytes);
}

Result<std::shared_ptr<Allocation>> BufferPool::allocate(std::size_t bytes) {
  if (bytes > (std::uint64_t{1} << 62))
    return Status::invalid(fmt::format("a buffer of {} bytes is more than any machine has", bytes));
  auto data = take(rounded(bytes));
  if (!data) return data.status().with_context(fmt::format("a buffer of {} bytes", bytes));
  auto made = std::make_shared<Allocation>(shared_from_this(), *data, bytes);
  if (segment_ != nullptr) UNISONO_TRY(segment_->hand_out(offset_of(*data), rounded(bytes)));
  const std::lock_guard lock(mutex_);
  living_[*data] = made;
  return made;
}

Result<std::byte*> BufferPool::take(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_.find(bytes); found != kept_.end()) {
      std::byte* data = found->second;
      kept_.erase(found);
      kept_bytes_ -= bytes;
      return data;
    }
  }
  if (segment_ != nullptr) {
    auto offset = segment_->allocate_buffer(bytes);
    if (!offset) return offset.status();
    return segment_->base() + *offset;
  }
  const std::uint64_t alignment = bytes < kHugePage ? kPage : kHugePage;
  void* memory = std::aligned_alloc(alignment, bytes);
  if (memory == nullptr) return Status::system("the machine's memory is full", ENOMEM);
  if (alignment == kHugePage) ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish
  return static_cast<std::byte*>(memory);
}

std::shared_ptr<Allocation> BufferPool::find(const void* data) const {
  const std::lock_guard lock(mutex_);
  auto after = living_.upper_bound(static_cast<const std::byte*>(data));
  if (after == living_.begin()) return nullptr;
  auto found = std::prev(after)->second.lock();
  return found != nullptr && data < found->data() + found->bytes() ? found : nullptr;
}

bool BufferPool::take_over(std::byte* data, std::uint64_t bytes) noexcept {
  return segment_->take_over(offset_of(data), bytes);
}

void BufferPool::give_back(std::byte* data, std::uint64_t bytes) noexcept {
  const bool usable = segment_ == nullptr || segment_->take_back(offset_of(data), bytes);
  {
    const std::lock_guard lock(mutex_);
    living_.erase(data);
    if (!usable) return;
    if (kept_bytes_ + bytes <= kMostKept) {
      kept_.emplace(bytes, data);
      kept_bytes_ += bytes;
      return;
    }
  }
  release(data, bytes);
}

void BufferPool::release(std::byte* data, std::uint64_t bytes) noexcept {
  if (segment_ == nullptr)
    std::free(data);
  else
    segment_->release(offset_of(data), bytes);
}

}  // namespace unisono::detail

namespace unisono {

Buffer::Buffer(std::shared_ptr<detail::Allocation> impl) : impl_(std::move(impl)) {}
Buffer::~Buffer() = default;
std::byte* Buffer::data() const noexcept { return impl_ == nullptr ? nullptr : impl_->data(); }
std::size_t Buffer::size() const noexcept { return impl_ == nullptr ? 0 : impl_->bytes(); }
bool Buffer::shared() const noexcept { return impl_ != nullptr && impl_->shared(); }

}  // namespace unisono
