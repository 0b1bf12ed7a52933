#pragma once
/// `unisono bench --tune`: times every algorithm that can run, at every size, and keeps what it
/// learns for groups of the same layout.

#include <cstdint>
#include <string>
#include <vector>

#include "cli/bench/tune_choice.h"
#include "unisono/config.hpp"
#include "unisono/group.hpp"

namespace unisono::cli {

struct TuneOptions {
  std::vector<Collective> collectives;
  std::vector<std::int64_t> sizes;  ///< bytes of the collectives, ascending
  double seconds = 0.05;            ///< for each algorithm at each size
  std::string plot;                 ///< SVG file; empty: none
  std::string json;                 ///< rows of what was measured; empty: none
};

/// The sizes that are measured when none are given.
std::vector<std::int64_t> tune_ladder();

/// All ranks of `group` call it; rank 0 prints, and writes to config.cache (not with tuning off).
/// The exit status. Throws what the group throws.
int tune(const Group& group, const Config& config, const TuneOptions& options);

/// The figures as SVG: a panel for each collective and kind of memory, time over the best time
/// against size.
std::string plot_svg(const std::vector<TunePoint>& points, const std::string& title);

/// One object a line: collective ranks bytes memory algorithm time_us in_force chosen.
std::string rows_json(const std::vector<TunePoint>& points, int ranks);

}  // namespace unisono::cli
