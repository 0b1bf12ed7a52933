#pragma once
/// Callers' memory in this process's shared segment.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/process_mark.h"
#include "base/status.h"
#include "transport/transport.h"

namespace unisono::detail {

class BufferPool;

/// What a Buffer refers to. Gives itself back to its pool, but not in a forked child, which has a copy of its own.
class Allocation {
 public:
  Allocation(std::shared_ptr<BufferPool> pool, std::byte* data, std::size_t bytes) noexcept;
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;
  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  bool shared() const noexcept;
  /// A peer may still write to its pages: other ones, with the same contents, lie at its address from here on. It must live until that peer does not.
  bool take_over() noexcept;

 private:
  std::shared_ptr<BufferPool> pool_;
  std::byte* data_;
  std::size_t bytes_;
  ProcessMark process_;
  std::atomic<bool> taken_over_{false};
};

/// Allocations, and a few that were given back, kept for the next of the same size: committing memory costs more than most
/// collectives on it. Lives as long as any allocation. Thread-safety: any thread.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  /// `segment` may be null: then it is ordinary memory.
  explicit BufferPool(std::shared_ptr<transport::SharedSegment> segment) : segment_(std::move(segment)) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  Result<std::shared_ptr<Allocation>> allocate(std::size_t bytes);
  /// The living allocation that `data` points into, or nullptr.
  std::shared_ptr<Allocation> find(const void* data) const;
  bool shared() const noexcept { return segment_ != nullptr; }

 private:
  friend class Allocation;
  Result<std::byte*> take(std::uint64_t bytes);
  std::uint64_t offset_of(const std::byte* data) const noexcept {
    return static_cast<std::uint64_t>(data - segment_->base());
  }
  bool take_over(std::byte* data, std::uint64_t bytes) noexcept;
  void give_back(std::byte* data, std::uint64_t bytes) noexcept;
  void release(std::byte* data, std::uint64_t bytes) noexcept;

  static constexpr std::uint64_t kMostKept = 256 << 20;
  std::shared_ptr<transport::SharedSegment> segment_;
  mutable std::mutex mutex_;
  std::multimap<std::uint64_t, std::byte*> kept_;  ///< by size
  std::uint64_t kept_bytes_ = 0;
  std::map<const std::byte*, std::weak_ptr<Allocation>> living_;
};

/// How much address space a process's segment should have: room for as much as the machine has memory, within the process's limits.
/// Addresses only: memory is committed as it is allocated.
std::uint64_t segment_address_space();

}  // namespace unisono::detail
