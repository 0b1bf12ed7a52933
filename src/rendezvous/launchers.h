#pragma once
/// The launchers that are known: one row each. How they are told apart when several left their
/// variables is in launch_environment.cc.

#include <array>
#include <span>
#include <string>
#include <vector>

#include "rendezvous/ancestors.h"
#include "rendezvous/environment.h"
#include "rendezvous/launch_environment.h"

namespace unisono::rendezvous {

constexpr int kMaxRanks = 1 << 24;

/// What the functions of a row may look at. Thread-safety: a value.
struct Surroundings {
  const Environment& environment;
  const std::vector<Ancestor>& ancestors;
};

/// Thread-safety: constants.
struct Launcher {
  using Names = std::array<const char*, 3>;  ///< null: no more
  const char* name;                          ///< Config::launcher, UNISONO_LAUNCHER
  const char* rank;                          ///< the variable that says this process's rank: there is such a launch
  Names sizes;                               ///< variables that say how many ranks there are: the first that is set
  Names marks;                               ///< others that are new with every launch
  bool inside_slurm;                         ///< its ranks are not Slurm's tasks, which only start its proxies
  /// Whether the variables are this launcher's, beyond that `rank` is set. Null: they are.
  bool (*is_it)(const Environment&);
  /// The number of ranks where it is more than a variable. Null: by `sizes`.
  Result<int> (*count)(const Surroundings&);
  /// The rest of `world`, whose rank and size are there.
  Status (*describe)(const Surroundings&, World& world);
};

/// Where several pairs of variables came with one launch, its row comes before those of the others.
std::span<const Launcher> launchers();

/// The variable's value, or nothing.
std::string value_of(const Environment& environment, const char* name);

/// The first of `names` that is set, as the number of ranks on this host.
Status read_local_size(const Environment& environment, std::initializer_list<const char*> names, World& world);

/// A port for rank 0 to serve at, the same wherever the job's name is the same.
int port_of_job(const std::string& job);

// --- rows with files of their own
bool is_slurm_step(const Environment& environment);
Status describe_slurm(const Surroundings& here, World& world);
Result<int> count_mlx(const Surroundings& here);
Status describe_mlx(const Surroundings& here, World& world);

}  // namespace unisono::rendezvous
