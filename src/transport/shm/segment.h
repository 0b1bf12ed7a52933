#pragma once
/// This process's shared memory: a sealed memfd. It has no name, so nothing can leak, and no mount limits its size.
///
/// Forked children keep the mapping (no MADV_DONTFORK), but for buffers, of which they have copies of their own (LentList). Whoever
/// writes checks that it is not in a forked child first (see Channel::close).

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "base/fd.h"
#include "base/log.h"
#include "base/memory_binder.h"
#include "transport/shm/extents.h"
#include "transport/shm/layout.h"
#include "transport/shm/registered.h"
#include "transport/transport.h"

namespace unisono::transport::shm {

class Segment final : public SharedSegment, public std::enable_shared_from_this<Segment> {
 public:
  /// `bytes` are virtual and rounded up to pages; memory is committed by allocate(), in the process that owns the segment: no peer ever touches
  /// a page first. All pages are to come from the node of `home`; when the system refuses that, it is a line in the log, and they come
  /// from the node of the core that commits them.
  static Result<std::shared_ptr<Segment>> create(std::uint64_t bytes, Logger log,
                                                 const std::optional<MemoryHome>& home = {});
  ~Segment() override;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* base() noexcept override { return base_; }
  Result<std::uint64_t> allocate(std::uint64_t bytes) override;
  Result<std::uint64_t> allocate_buffer(std::uint64_t bytes) override;
  /// As allocate_buffer(), for bytes that lie on huge pages where `like` can. From 32 MiB on the range is so wide that all of them do in the segment,
  /// the ends, too, which cannot where `like` is: less than 4 MiB more.
  Result<Room> allocate_like(const std::byte* like, std::uint64_t bytes);
  Status hand_out(std::uint64_t offset, std::uint64_t bytes) override;
  bool take_over(std::uint64_t offset, std::uint64_t bytes) noexcept override;
  bool take_back(std::uint64_t offset, std::uint64_t bytes) noexcept override;
  void release(std::uint64_t offset, std::uint64_t bytes) noexcept override;
  Result<std::shared_ptr<RegisteredMemory>> register_memory(std::byte* data, std::uint64_t bytes,
                                                            Freed freed = Freed::after_release) override;
  void waits_on(int processor) noexcept override {
    header().processor.store(static_cast<std::uint32_t>(processor + 1), std::memory_order_relaxed);
  }
  Place find(const void* data, std::uint64_t bytes) const noexcept override;
  std::uint64_t allocated() const noexcept override { return allocated_.load(std::memory_order_relaxed); }

  int fd() const noexcept { return fd_.get(); }
  const Logger& log() const noexcept { return log_; }
  std::uint64_t bytes() const noexcept override { return bytes_; }
  SegmentHeader& header() noexcept { return *reinterpret_cast<SegmentHeader*>(base_); }

 private:
  Segment(Fd fd, std::byte* base, std::uint64_t bytes, Logger log);
  Result<std::uint64_t> allocate_aligned(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t skew = 0);
  Result<std::uint64_t> allocate_pages(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t skew);
  Result<std::uint64_t> allocate_small(std::uint64_t bytes);
  Status commit(std::uint64_t offset, std::uint64_t bytes) noexcept;
  void punch(std::uint64_t offset, std::uint64_t bytes) noexcept;
  Lent lent_at(std::uint64_t offset, std::uint64_t bytes) const noexcept;
  bool taken_over(std::uint64_t offset, std::uint64_t bytes) const noexcept;

  Fd fd_;
  std::byte* base_;
  std::uint64_t bytes_;
  Logger log_;
  std::uint64_t device_ = 0, inode_ = 0;  ///< of the memfd
  mutable std::mutex mutex_;
  Extents::Map taken_over_;  ///< handed out, and not at its address any more
  std::atomic<bool> any_taken_over_{false};
  Extents pages_;      ///< not committed, all zero
  Extents small_;      ///< committed pieces for allocations below a page; may be dirty
  Extents::Map live_;  ///< what is handed out
  std::atomic<std::uint64_t> allocated_{0};
  RegisteredTable registered_{log_};
};

}  // namespace unisono::transport::shm
