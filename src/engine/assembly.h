#pragma once
/// The frames of one peer that come in parts, over several streams: each part is read straight to its place.

#include <cstdint>
#include <map>
#include <optional>

#include "engine/stream.h"

namespace unisono::engine {

/// All parts of a frame but the last have a multiple of so many bytes.
inline constexpr std::uint64_t kPartAlignment = 64;

/// Thread-safety: under the messenger's lock.
class Assembly {
 public:
  /// A frame whose parts are all there.
  struct Whole {
    FrameHeader header;
    Sink sink;
  };

  /// The head of a frame came; its payload belongs to `sink`. False: no sender of ours would have sent it.
  bool begin(const FrameHeader& head, Sink sink);
  enum class Found : std::uint8_t {
    yes,
    later,  ///< the head is still under way, on another stream
    never   ///< there is no such frame, or it is not as long as that: nothing that a sender of ours would have sent
  };
  /// Where a part goes: `into`, when it is found.
  Found find(const FrameHeader& part, Sink& into) const;
  /// A part that was found is there: the frame, when it was the last one.
  std::optional<Whole> arrived(const FrameHeader& part);
  bool empty() const noexcept { return open_.empty(); }
  /// Whether parts of a frame of the group are still to come.
  bool holds(std::uint64_t group) const noexcept;

  /// Let go of the memory of this group's frames (see Stream::forget): what still comes of them is dropped.
  void forget(std::uint64_t group, const Completion* only, const Status& status, Deferred& deferred);

 private:
  struct Open {
    Whole frame;
    std::uint64_t missing;  ///< bytes
  };
  std::map<std::uint64_t, Open> open_;  ///< by number
  std::uint64_t next_ = 0;              ///< the number of the next head: heads come in order
};

}  // namespace unisono::engine
