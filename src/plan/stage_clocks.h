#pragma once
/// Finds races on memory that ranks share while the verifier runs the plans. Part of the verifier.

#include <cstdint>
#include <vector>

#include "plan/lists.h"
#include "plan/verify_internal.h"

namespace unisono::plan::verification {

/// Vector clocks with one component for each lane of each rank. Only stages, and in shared plans the buffers, are shared
/// between ranks, so plans without them cost nothing here. Call enter() before the accesses of a step, leave() when it is done, and join() for each
/// step on another lane that it comes after.
class StageClocks {
 public:
  StageClocks(const Subject& subject, const Links& links, std::size_t cells);

  void enter(GlobalStep g);
  /// An access of step g; returns a step that is in conflict with it, or kNone.
  GlobalStep read(GlobalStep g, std::uint32_t cell);
  GlobalStep write(GlobalStep g, std::uint32_t cell);
  void leave(GlobalStep g);
  /// When all steps are done: one that touches `cell` and is not ordered before the end of rank `rank`, or kNone.
  GlobalStep outlasts(std::uint32_t cell, std::int32_t rank);
  /// `later` comes after `earlier`; takes effect when `later` enters or leaves.
  void join(GlobalStep later, GlobalStep earlier);

 private:
  struct Access {
    std::uint32_t lane = 0, number = 0;
    GlobalStep step = kNone;
  };
  std::uint32_t* clock(std::uint32_t lane) { return clocks_.data() + std::size_t{lane} * lanes_; }
  bool before(const Access& a, std::uint32_t lane) { return clock(lane)[a.lane] >= a.number; }
  bool seen_elsewhere(GlobalStep g, const Links& links) const;

  const Subject& subject_;
  bool active_;
  std::uint32_t lanes_ = 0;                ///< of all ranks together
  std::vector<std::uint32_t> first_lane_;  ///< by rank
  std::vector<std::uint32_t> lane_of_;     ///< by step
  std::vector<std::uint32_t> clocks_;      ///< by lane: where it is now
  std::vector<std::uint32_t> snapshot_;    ///< by step: index in snapshots_, kNone where nobody looks
  std::vector<std::uint32_t> snapshots_;
  Lists<GlobalStep> incoming_;   ///< by step: which it comes after
  std::vector<Access> writers_;  ///< by cell: the last one,
  Lists<Access> readers_;        ///< and who has read it since
};

}  // namespace unisono::plan::verification
