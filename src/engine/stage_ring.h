#pragma once
/// Where slices lie on a stage: one behind the other, around a ring.

#include <cstdint>
#include <deque>
#include <limits>

namespace unisono::engine {

/// All ranks of a group take places for the same slices in the same order, so all come to the same offsets without a word. Places are
/// as large as what lies there: small operations that follow each other wander around the whole ring, and a rank seldom writes to
/// lines that still lie in a peer's own cache, which costs several times what others do. Behind a short one the ring is left free for a
/// little: there a peer's processor fetches ahead while it reads. (Where it reads longer ones it matters less.)
/// Thread-safety: one thread at a time.
class StageRing {
 public:
  explicit StageRing(std::uint64_t bytes) noexcept : bytes_(bytes) {}

  struct Place {
    std::uint64_t offset = 0;      ///< on every rank's stage
    std::uint64_t free_after = 0;  ///< it is free once all ranks are done with so many slices; 0: it is
    std::uint64_t turn = 0;        ///< how many times places have come back to the beginning
  };
  std::uint64_t bytes() const noexcept { return bytes_; }
  /// For slice number `slice`, larger than any before; `bytes` of at most bytes(). It lies within the first `within` bytes of the stage, at least as many.
  Place take(std::uint64_t slice, std::uint64_t bytes,
             std::uint64_t within = std::numeric_limits<std::uint64_t>::max());

 private:
  struct Taken {
    std::uint64_t slice, begin, end;
  };
  std::uint64_t bytes_, next_ = 0, turn_ = 0;
  std::deque<Taken> taken_;  ///< oldest first: those ahead of next_, then those behind it
};

}  // namespace unisono::engine
