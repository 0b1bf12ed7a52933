#include "plan/opening.h"

#include <algorithm>

namespace unisono::plan {

std::uint32_t opening(const Plan& plan) noexcept {
  if (!plan.shared || plan.lanes != 1 || !plan.deps.empty()) return 0;
  std::uint32_t count = 0;
  while (count < plan.steps.size() && copies(plan.steps[count].op)) count++;
  // Copies from one place are done together (engine/compiled.h), from their first one on.
  for (std::uint32_t i = 1; i < count; i++)
    if (plan.src(plan.steps[i])[0] == plan.src(plan.steps[i - 1])[0]) return 0;
  return count < 2 ? 0 : count;
}

Plan with_opening_turned(Plan plan) {
  std::reverse(plan.steps.begin(), plan.steps.begin() + opening(plan));
  return plan;
}

}  // namespace unisono::plan
