#include "plan/registry.h"

namespace unisono::plan {

#define ROW(collective, name, place, traits, summary, source) \
  namespace collective {                                      \
  Plan name(const Shape&);                                    \
  Cost name##_cost(const Shape&);                             \
  }
#include "plan/algorithms/table.inc"
#undef ROW

namespace {

#define ROW(collective, name, place, traits, summary, source)                                                 \
  Algorithm{Collective::collective,  #name, Place::place, summary, source, Traits::traits, &collective::name, \
            &collective::name##_cost},
constexpr Algorithm kAlgorithms[] = {
#include "plan/algorithms/table.inc"
};
#undef ROW

}  // namespace

std::span<const Algorithm> algorithms() noexcept { return kAlgorithms; }

const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept {
  for (const Algorithm& algorithm : kAlgorithms) {
    if (algorithm.collective == collective && algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

}  // namespace unisono::plan
