#pragma once
/// What the launcher makes of the ranks' ends.

#include <sys/types.h>

#include <optional>
#include <span>
#include <string>

#include "cli/launcher_process.h"

namespace unisono::cli {

struct RankEnd {
  int rank = 0;
  pid_t pid = -1;
  std::optional<Ending> ending;  ///< none: it runs
};

/// How the ranks but `first` ended, those that ended alike together: "; ranks 0,1: exited with status 1".
std::string describe_others(std::span<const RankEnd> ends, int first);

}  // namespace unisono::cli
