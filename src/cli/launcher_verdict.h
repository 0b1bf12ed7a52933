#pragma once
/// What the launcher makes of the ranks' ends.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/launcher_process.h"

namespace unisono::cli {

/// A process whose end, or abort(), made a call of a rank fail.
struct Culprit {
  std::string host;
  std::int64_t pid = 0;
  int rank = -1;  ///< of this launcher; -1: none of them
  friend bool operator==(const Culprit&, const Culprit&) = default;
};

struct RankEnd {
  int rank = 0;
  pid_t pid = -1;
  std::optional<Ending> ending;   ///< none: it runs
  bool ended_by_us = false;       ///< so its ending is no failure of its own
  std::vector<Culprit> culprits;  ///< in the order of its errors
  bool failed() const { return ending && !ending->ok() && !ended_by_us; }
};

/// The rank of the failure that caused that of rank `first`: from there along the culprits, to one
/// whose own error names nobody who failed. None while one of them runs still: it may be about to
/// end.
std::optional<int> first_in_cause(std::span<const RankEnd> ends, int first);

/// What that rank's errors say of processes that did not fail, or that other launchers started: ";
/// its error names rank 2, which had ended with status 0". Empty when they name nobody.
std::string describe_culprits(std::span<const RankEnd> ends, int rank);

/// How the ranks but `first` ended, those that ended alike together: "; ranks 0,1: exited with
/// status 1".
std::string describe_others(std::span<const RankEnd> ends, int first);

}  // namespace unisono::cli
