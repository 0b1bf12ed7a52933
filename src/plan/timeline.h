#pragma once
/// When each step happens in the time of textbooks: a message takes one unit and everything else none; a rank sends one
/// message at a time and receives one at a time, in the order of its plan; a wait is over one unit after its signal. Pure.

#include <cstdint>
#include <span>
#include <vector>

#include "plan/ir.h"

namespace unisono::plan {

struct Timeline {
  std::int64_t length = 0;                       ///< -1 when the orders of ports and messages contradict each other
  std::vector<std::vector<std::int32_t>> start;  ///< by rank and step
};

/// `plans[r]` is rank r's plan; they must be well-formed.
Timeline time_steps(std::span<const Plan> plans);

namespace verification {
struct Subject;
struct Links;
Timeline time_steps(const Subject& subject, const Links& links);
}  // namespace verification

}  // namespace unisono::plan
