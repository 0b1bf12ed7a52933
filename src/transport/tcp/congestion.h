#pragma once
/// Which congestion control a connection has.

#include <string>

#include "base/clock.h"
#include "base/status.h"

namespace unisono::transport::tcp {

/// The system's, as a rule, or the one that was asked for. Where the system's is BBR, connections to peers near by have reno instead, which every Linux has and lets everybody choose: BBR
/// sends by timers, at the rate at which the reader has taken bytes of late, takes a reader that computes for a slow link, and sends short segments, whose interrupts cost who computes meanwhile.
/// On a short way nothing is gained by it, as what is lost is sent again at once. A socket that has once been paced stays so; hence a
/// connection begins without, and has the system's from when its way is found to be a long one.
/// Thread-safety: as any value's.
class Congestion {
 public:
  /// The system's, as `fd` has it, a new TCP socket that is not connected, which keeps what it has. An error when this system does not have `wanted` (empty: chosen, see above), or does not let this process use it.
  static Result<Congestion> create(int fd, std::string wanted);

  /// For a socket that is not connected yet, or listens, to or at an address that is `loopback` or not.
  void begin(int fd, bool loopback) const noexcept;
  /// For one whose connection is there, to a peer on this host or at that distance (zero: unknown). Whether it keeps another one than the system's because the peer is near.
  bool settle(int fd, bool loopback, Duration round_trip) const noexcept;

  const std::string& system() const noexcept { return system_; }

 private:
  std::string wanted_, system_;
  bool avoids_ = false;  ///< the system's paces, and connections near by go without
};

/// What the kernel says of a socket: "cubic"; empty when it says nothing.
std::string congestion_control(int fd);

}  // namespace unisono::transport::tcp
