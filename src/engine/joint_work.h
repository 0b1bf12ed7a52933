#pragma once
/// Work on a stretch of memory that several ranks do together, slice by slice: its owner from one end and whoever helps from the other, until they meet.
/// Any of them may do it all, so nobody waits for anybody. What is next is one word that all change by compare-and-swap: who comes late, or computes
/// meanwhile, finds less to do.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace unisono::engine {

/// In the segment of the owner, and mapped for writing by the others. Whoever changes it so that another can go on wakes it.
struct JointRecord {
  std::atomic<std::uint64_t> claims{0};  ///< slices that somebody works on or is through with, and flags: see JointWork
  std::atomic<std::uint64_t> finished{0};  ///< slices
  std::uint64_t bytes = 0, slice = 0;      ///< of all, and of a slice
  std::uint32_t owner_in_front =
      0;  ///< 1: it goes from the beginning, and the others from the end; 0: the other way round
};

/// One side of it. A slice that is claimed is worked on at once, without waiting for anything: so after stop() the other sides are through with their
/// last ones soon, unless a process is stopped. Thread-safety: one thread at a time; the other sides are other processes, or other threads.
class JointWork {
 public:
  enum class Side : std::uint8_t { owner, other };

  /// Slices, one behind the other, that one side has claimed: bytes [at, at + bytes).
  struct Piece {
    std::uint64_t at = 0, bytes = 0, slices = 0;
    friend bool operator==(const Piece&, const Piece&) = default;
  };

  /// Bytes of a slice, at least `good`, so that the slices of `bytes` can be counted.
  static std::uint64_t slice_of(std::uint64_t bytes, std::uint64_t good) noexcept;
  /// The same for no more than `most` slices.
  static std::uint64_t slice_of(std::uint64_t bytes, std::uint64_t good, std::uint64_t most) noexcept {
    return slice_of(bytes, std::max(good, (bytes + most - 1) / most));
  }
  /// `record` is filled in, and lives as long as anybody looks at it.
  JointWork(JointRecord& record, Side side) noexcept;

  std::uint64_t bytes() const noexcept { return bytes_; }
  std::uint64_t slice() const noexcept { return slice_; }
  std::uint64_t slices() const noexcept { return slices_; }
  /// What this side is to do next, at most so many slices and at least one; nothing where all is claimed, or somebody has stopped. Of many slices that are
  /// left it is several, but never so many that the others would wait long for them in the end.
  std::optional<Piece> claim(std::uint64_t most) noexcept;
  /// It is done, and all that was written to memory is there for who sees that.
  void finish(const Piece& piece) noexcept;
  /// The last one that this side had claimed is not done after all: anybody may have it. Not where several are on this side.
  void unclaim(const Piece& piece) noexcept;
  /// Bytes that nobody has claimed yet, to the slice.
  std::uint64_t left() const noexcept;
  /// All of it is done, by whomever.
  bool all_finished() const noexcept { return record_->finished.load(std::memory_order_acquire) >= slices_; }

  /// No slice is claimed any more.
  void stop() noexcept;
  /// Whether that side has stopped.
  bool stopped(Side side) const noexcept;
  /// After stop(): whether all that had been claimed is done, so that no other side touches anything any more.
  bool quiet() const noexcept;

 protected:
  /// JointRecord::claims: how many slices from the beginning, how many from the end, and flags. The other bits are for who makes more of it.
  static constexpr std::uint64_t kOwnerStopped = std::uint64_t{1} << 61, kOtherStopped = std::uint64_t{1} << 62;

 private:
  JointRecord* record_;
  Side side_;
  bool in_front_;
  std::uint64_t bytes_, slice_, slices_;
};

}  // namespace unisono::engine
