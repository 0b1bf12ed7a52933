#pragma once
/// Pictures of a whole collective. Time runs in rounds of messages, or in phases of signals (timeline.h). Pure.

#include <span>
#include <string>

#include "plan/ir.h"

namespace unisono::plan {

/// A table: a column for each rank, a row for each round, with what each rank sends, receives and computes.
std::string draw_text(std::span<const Plan> plans);

/// A time-space diagram as an SVG document: a horizontal lane for each rank, messages as arrows, local work as boxes.
/// Blocks are named by their extents; a sum of all ranks is marked with "=", a partial one with "+".
std::string draw_svg(std::span<const Plan> plans);

/// The largest group whose drawing can still be read.
inline constexpr int kMostRanksToDraw = 64;

}  // namespace unisono::plan
