#pragma once
/// Which launcher started this process, and which rank of how many it is.

#include <string>

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
};

/// The first launcher whose variables are there: unisono run, then RANK and WORLD_SIZE (torchrun, Kubernetes operators), Open
/// MPI, Slurm, MPICH. None: rank 0 of 1. Half of a pair of variables, or variables that count nodes where ranks are wanted,
/// are errors that say what to set.
Result<World> detect_world(const Environment& environment);

}  // namespace unisono::rendezvous
