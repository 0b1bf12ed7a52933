#pragma once
/// What both drawings are made from: the steps of all ranks in rounds, in few words. Pure.

#include <span>
#include <string>
#include <vector>

#include "plan/ir.h"

namespace unisono::plan {

/// A message, or a signal that somebody waits for.
struct Arrow {
  std::int32_t from = 0, to = 0;    ///< ranks
  std::int32_t start = 0, end = 0;  ///< rounds
  bool signal = false;
  std::string blocks;  ///< "2 3", "0..7"; empty for signals and empty messages
};

struct Events {
  std::int32_t rounds = 0;
  std::vector<Arrow> arrows;                                ///< in the order of the senders' plans
  std::vector<std::vector<std::vector<std::string>>> work;  ///< by rank and round: "put 1 2", "+ 3", "= 0", "get 1"
};

Events events_of(std::span<const Plan> plans);

}  // namespace unisono::plan
