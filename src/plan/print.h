#pragma once
/// Plans as text for people and as JSON for tools. Pure.

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "plan/ir.h"

namespace unisono::plan {

/// "reduce", "send" ...
std::string_view name_of(OpCode op) noexcept;
/// "in", "out", "scratch", "stage".
std::string_view name_of(Space space) noexcept;

/// "out[3]", "in[2..5]", "stage@4[1]" (block 1 of rank 4's stage).
std::string to_text(const Ref& ref);
/// One step without its number, lane and dependencies: "reduce out[1] = scratch[0] + in[1], final".
std::string to_text(const Plan& plan, const Step& step);
/// The whole plan, one step a line.
std::string to_text(const Plan& plan);

/// All that is in the plan. Refs are [space, rank or null, first, count].
nlohmann::ordered_json to_json(const Plan& plan);

}  // namespace unisono::plan
