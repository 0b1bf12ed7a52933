#pragma once
/// A wish to reach a peer, tried again with growing pauses until its deadline.

#include <algorithm>
#include <chrono>
#include <string>

#include "base/clock.h"
#include "base/handshake.h"
#include "base/status.h"

namespace unisono::transport {

struct Dial {
  PeerId to;
  std::string address;
  TimePoint deadline = TimePoint::max();
  TimePoint next_try = TimePoint{};  ///< at once
  Duration pause = std::chrono::milliseconds(1);
  int tries = 0;
  int dropped = 0;   ///< how often the other side hung up on us in the middle of the handshake
  std::string last;  ///< why the last try failed

  /// A peer that hangs up so often in the handshake does not want us: most likely the secrets differ.
  static constexpr int kMaxDropped = 8;

  /// Note a failed try; the next comes after a pause, but not later than the deadline.
  void again(TimePoint now, std::string reason) {
    ++tries;
    last = std::move(reason);
    next_try = std::min(deadline, saturating_add(now, pause));
    pause = std::min<Duration>(pause * 2, std::chrono::milliseconds(500));
  }
  bool hopeless(TimePoint now) const noexcept { return now >= deadline || dropped >= kMaxDropped; }
  /// The error for the caller. `transport`: "shm"; `hint`: what to look at.
  Status give_up(std::string_view transport, std::string_view hint) const;
};

}  // namespace unisono::transport
