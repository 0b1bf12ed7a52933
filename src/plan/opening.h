#pragma once
/// The copies that a shared plan begins with: nobody has waited for anything between them, so they may be done in any order.

#include <cstdint>

#include "plan/ir.h"

namespace unisono::plan {

/// How many steps at the beginning of a shared plan of one lane are copies from different places which wait for nothing; 0 where there are fewer than two, and for other plans.
/// A rank may do them in the opposite order without telling anybody: verify() proves all plans of an algorithm so, too. (Ranks that
/// differ in it are proved with that: no step of another rank is ordered behind one of these alone.)
std::uint32_t opening(const Plan& plan) noexcept;

/// The plan with these in the opposite order.
Plan with_opening_turned(Plan plan);

}  // namespace unisono::plan
