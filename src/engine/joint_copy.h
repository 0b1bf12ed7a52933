#pragma once
/// Copies, also by two processes together (joint_work.h).

#include <cstddef>
#include <cstdint>

#include "engine/faster_way.h"
#include "engine/joint_work.h"

namespace unisono::engine {

/// As kernels::copy. Long ones around the caches go the one of `ways`, from front to back or at several places at once, that is faster here.
void copy(std::byte* to, const std::byte* from, std::size_t bytes, bool around, FasterWay& ways) noexcept;

/// One side of a joint one. Nothing is copied before open().
class JointCopy : public JointWork {
 public:
  /// Bytes of a slice of a copy of `bytes`.
  static std::uint64_t slice_for(std::uint64_t bytes) noexcept;
  using JointWork::JointWork;

  /// Where the memory is, here. What lies beyond `room` bytes is counted, but not copied. `around`: stored around the caches.
  void open(const std::byte* from, std::byte* to, std::uint64_t room, bool around) noexcept;
  bool opened() const noexcept { return to_ != nullptr; }

  /// Copies at most so many bytes, at least a slice if there is one; whether any. `ways`: as in copy() above.
  bool copy(std::uint64_t most, FasterWay& ways) noexcept;
  /// The same by `move`(Piece), up to so many slices at a time. It says whether it could; what it could not do is left to whoever claims it then.
  template <class Move>
  bool move(std::uint64_t most, std::uint64_t at_once, Move&& move) {
    std::uint64_t done = 0;
    while (done < most) {
      const auto piece = claim(at_once);
      if (!piece) break;
      if (!move(*piece)) {
        unclaim(*piece);
        break;
      }
      finish(*piece);
      done += piece->bytes;
    }
    return done > 0;
  }

 protected:
  std::byte* to() const noexcept { return to_; }
  std::uint64_t room() const noexcept { return room_; }

 private:
  bool around_ = false;
  const std::byte* from_ = nullptr;
  std::byte* to_ = nullptr;
  std::uint64_t room_ = 0;
};

}  // namespace unisono::engine
