#pragma once
/// Times an algorithm for groups that nobody has: `unisono plan --simulate`. Pure.
///
///   auto simulation = Simulation::make(*algorithm, shape, model);      // writes the plans down, once
///   auto answer = simulation->time(64 << 20, {});                      // for as many sizes as you like
///
/// How, the first of these that is possible; the answer says which:
///   every rank  all ranks of the group, event by event
///   one host    where the plans of all hosts are the same but for the shift (world.h), one host stands for all of them. Without links
///               between hosts that gives what every rank would; with links it is an estimate (fabric.h: Picture)
/// A question that neither can answer within the bounds is refused with the reason.
///
/// Buffers are used in place where the collective allows it. Bytes are divided evenly, fractions included.

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "plan/registry.h"
#include "simulate/engine.h"
#include "simulate/model.h"
#include "simulate/world.h"

namespace unisono::simulate {

enum class How : std::uint8_t { automatic, every_rank, one_host };

struct Options {
  std::int64_t slice = 0;   ///< bytes of a slice of a block; 0: as the library chooses it
  std::int32_t window = 4;  ///< slices in flight
  How how = How::automatic;
  double most_events = 1e8;  ///< a minute on a slow core
};

struct Answer {
  Timing timing;
  std::int64_t bytes = 0, slice = 0, slices = 1;
  double messages = 0;  ///< of all ranks and slices
  Picture picture = Picture::whole;
  bool estimate = false;  ///< one host stood for all, and links are shared
};

class Simulation {
 public:
  /// `shape.hosts` empty: every rank has a host of its own (algorithms for shared memory: all are on one).
  static Result<Simulation> make(const plan::Algorithm& algorithm, plan::Shape shape, const Model& model);

  /// `bytes`: the collective's size S, as in plan/registry.h.
  Result<Answer> time(std::int64_t bytes, const Options& options) const;
  const World& world() const noexcept { return world_; }
  /// In words: which ranks were simulated, for a reader of the answer.
  std::string describe(const Answer& answer) const;

 private:
  Simulation(World world, Model model) : world_(std::move(world)), model_(model) {}
  World world_;
  Model model_;
};

/// Bytes of a slice of a block that the engine would take.
std::int64_t default_slice(const World& world);

}  // namespace unisono::simulate
