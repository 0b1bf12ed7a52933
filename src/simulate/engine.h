#pragma once
/// Runs a World on a Fabric in virtual time, event by event. Pure: the same arguments give the same times to the last bit.
///
/// A rank has one processor, which does one thing after the other in the order in which things can be done: hand over a message, take one
/// in, copy, add. Slices go as in the library's engine: up to `window` at once, oldest retired first; in staged plans a slot is free when all
/// ranks are done with the slice that had it before.

#include <cstdint>
#include <string>

#include "base/status.h"
#include "simulate/fabric.h"
#include "simulate/model.h"
#include "simulate/world.h"

namespace unisono::simulate {

/// How the slowest rank's time came about: along the chain of what waited for what, back from its end. Seconds; they add up to the time.
struct Path {
  double latency = 0;   ///< messages under way
  double transfer = 0;  ///< bytes going through ports and links
  double compute = 0;   ///< a processor at work: overheads, copies, sums
  double queue = 0;     ///< waiting for a port, a link or a processor that is busy with something else
  std::int64_t messages = 0;
  double total() const noexcept { return latency + transfer + compute + queue; }
};

struct Timing {
  double seconds = 0;  ///< until the last rank is done
  std::int32_t last_rank = 0;
  Path path;
  std::string busiest;      ///< a port, a link, a memory or a rank's processor
  double busy = 0;          ///< seconds
  double crossed = 0;       ///< bytes that went from one NUMA node to another
  std::int64_t events = 0;  ///< what was simulated
};

struct Slicing {
  double block = 0;        ///< bytes of a block
  std::int64_t slice = 1;  ///< bytes of a slice of a block
  std::int32_t window = 4;
};

/// Fails when the plans wait for each other.
Result<Timing> run(const Model& model, const World& world, Fabric fabric, Picture picture, const Slicing& slicing);

/// Events that run() will need, about.
double expected_events(const World& world, const Fabric& fabric, Picture picture, const Slicing& slicing, bool fair);

std::int64_t slices_of(const Slicing& slicing);

}  // namespace unisono::simulate
