#pragma once
/// A copy that two processes do together, slice by slice, one from the beginning and one from the end, until they meet. Either may do it all, so
/// neither waits for the other. What is next is one word that both change by compare-and-swap: who comes late, or computes meanwhile, finds less to do.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace unisono::engine {

/// In the segment of one of them, its owner, and mapped for writing by the other. Whoever changes it so that the other can go on wakes it.
struct JointCopyRecord {
  std::atomic<std::uint64_t> claims{0};  ///< slices that somebody copies or has copied, and flags: see JointCopy
  std::atomic<std::uint64_t> copied{0};  ///< slices
  std::uint64_t bytes = 0, slice = 0;    ///< of all, and of a slice
  std::uint32_t owner_in_front =
      0;  ///< 1: it copies from the beginning, and the other from the end; 0: the other way round
};

/// One side of it. A slice that is claimed is copied at once, without waiting for anything: so after stop() the other side is through with its
/// last one soon, unless its process is stopped. Thread-safety: one thread at a time; the other side is another process, or another thread.
class JointCopy {
 public:
  enum class Side : std::uint8_t { owner, other };

  /// Bytes of a slice of a copy of `bytes`.
  static std::uint64_t slice_for(std::uint64_t bytes) noexcept;
  /// `record` is filled in, and lives as long as the other side looks at it. Nothing is copied before open().
  JointCopy(JointCopyRecord& record, Side side) noexcept;

  /// Where the memory is, here. What lies beyond `room` bytes is counted, but not copied. `around`: stored around the caches.
  void open(const std::byte* from, std::byte* to, std::uint64_t room, bool around) noexcept;
  bool opened() const noexcept { return to_ != nullptr; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Copies at most so many bytes, at least a slice if there is one; whether any.
  bool copy(std::uint64_t most) noexcept;
  /// Bytes that nobody has claimed yet, to the slice.
  std::uint64_t left() const noexcept;
  /// Everything is copied, by whomever.
  bool all_copied() const noexcept { return record_->copied.load(std::memory_order_acquire) >= slices_; }

  /// No slice is claimed any more.
  void stop() noexcept;
  /// Whether that side has stopped.
  bool stopped(Side side) const noexcept;
  /// After stop(): whether all that had been claimed is copied, so that the other side touches nothing any more.
  bool quiet() const noexcept { return record_->copied.load(std::memory_order_acquire) >= due_; }

 protected:
  /// JointCopyRecord::claims: how many slices from the beginning, how many from the end, and flags. The other bits are for who makes more of it.
  static constexpr std::uint64_t kOwnerStopped = std::uint64_t{1} << 61, kOtherStopped = std::uint64_t{1} << 62;

 private:
  JointCopyRecord* record_;
  Side side_;
  bool in_front_, around_ = false;
  const std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  std::uint64_t bytes_, slice_, slices_;
  std::uint64_t room_ = 0;
  std::uint64_t due_ = 0;  ///< slices that were claimed when this side stopped
};

}  // namespace unisono::engine
