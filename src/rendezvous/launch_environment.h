#pragma once
/// Which launcher started this process, and which rank of how many it is.

#include <string>
#include <vector>

#include "rendezvous/ancestors.h"
#include "rendezvous/environment.h"

namespace unisono::rendezvous {

/// What a launcher says; fields of Config.
struct World {
  int rank = 0;
  int size = 1;
  int local_size = 0;  ///< 0: it does not say
  std::string launcher = "none";
  std::string job;
  std::string init_method;
  /// What a person should hear once: this is a world of one, and something says that there are more tasks.
  std::string warning;
  /// Variables of an outer `unisono run` that another launcher's ranks inherited: nothing may read them.
  std::vector<std::string> left_over;
};

/// The launcher (one of launchers()) that started this process. Where several left their variables, it is the innermost: the
/// one whose variables the nearest of `ancestry` does not have yet; where that does not tell, what is known to start within
/// what. UNISONO_LAUNCHER names one; UNISONO_RANK and UNISONO_SIZE that `unisono run` did not set decide, too. None: rank 0 of 1.
///
/// Errors (invalid_argument) say what to set: half of a pair of variables; two pairs that differ, where it cannot be told
/// which one came last; variables that count nodes where ranks are wanted.
Result<World> detect_world(const Environment& environment, const Ancestry& ancestry);

}  // namespace unisono::rendezvous
