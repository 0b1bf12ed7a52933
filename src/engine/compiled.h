#pragma once
/// A plan prepared for running: what can be looked up once instead of at every step. A value, shared by all runs.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/fold.h"
#include "plan/ir.h"

namespace unisono::engine {

struct Compiled {
  plan::Plan plan;
  std::vector<std::vector<std::uint32_t>> lanes;  ///< step indices of each lane, in order
  std::vector<std::uint32_t> places;              ///< of each step in its lane
  /// Lanes in the order in which one look at all of them gets furthest: what arrived, then what is done with it, then what leaves.
  std::vector<std::uint16_t> turns;
  /// Of each step: it is a recv, so is the one before it in its lane, and it may be posted while the few before it are on their
  /// way: none of them writes where it does.
  std::vector<std::uint8_t> ahead;
  /// Of each step: how many behind it in its lane copy from the same place, so that they may go through it together.
  std::vector<std::uint32_t> alike;
  std::vector<std::uint32_t> ordinals;  ///< for send and recv: which message of its channel between the two ranks
  /// The steps of a short plan of messages, in an order in which one after the other can be run: a recv only where nothing else can be. Empty: no such plan.
  std::vector<std::uint32_t> straight;
  std::uint32_t opening = 0;  ///< so many steps at its beginning may be done in the opposite order (plan::opening)
  std::int32_t joint_reduction = -1;  ///< of a joint plan: the step that others do a part of; -1: it has copies
  std::int32_t only_get =
      -1;  ///< the one step that copies from a peer's input, or reduces that with this rank's; -1: none, or several
  std::vector<Folding> foldings;       ///< by step; empty when there is none
  std::vector<std::int32_t> sends_to;  ///< ranks that this rank sends to, ascending
  bool messages = false;               ///< it sends or receives some
  /// Sums go back where operands lay, on other ranks' stages: who writes there next has just read there, so nobody waits for lines, and all of it goes
  /// through the caches.
  bool returns = false;
  /// Two ranks stage for each other: in every second turn around the stage each may do so on the other's, where it has read last.
  bool exchanges = false;

  /// Whether its ranks have stages.
  bool stages() const noexcept { return !plan.stage_extent.empty(); }
  /// What only_get, which there is, has from a peer.
  const plan::Ref& got() const {
    const auto sources = plan.src(plan.steps[static_cast<std::size_t>(only_get)]);
    return sources[sources.front().space == plan::Space::peer_in ? 0 : 1];
  }
  /// That step, and those behind it that are alike.
  std::span<const std::uint32_t> together(std::uint32_t step) const {
    return std::span(lanes[plan.steps[step].lane]).subspan(places[step], 1 + alike[step]);
  }
};

/// How many receives of a lane are posted at a time.
inline constexpr std::uint32_t kPostedAhead = 4;

Compiled compile(plan::Plan plan);

}  // namespace unisono::engine
