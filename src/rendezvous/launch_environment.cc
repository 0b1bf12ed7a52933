#include "rendezvous/launch_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "rendezvous/crypto.h"
#include "rendezvous/host_identity.h"
#include "rendezvous/launchers.h"

namespace unisono::rendezvous {
namespace {

/// A launcher whose variables are there. Its numbers may be unreadable: that matters when it is the one that counts.
struct Candidate {
  const Launcher* launcher;
  std::size_t depth = 0;  ///< ancestors that have the same variables, from the parent upwards: 0 is the innermost
  std::optional<std::int64_t> rank;
  std::optional<int> size;
  Status problem;  ///< why one of them is not there
};

const char* size_name(const Launcher& l, const Environment& environment) {
  for (const char* name : l.sizes)
    if (name != nullptr && !value_of(environment, name).empty()) return name;
  return nullptr;
}

std::string text_of_pair(const Candidate& c, const Environment& environment) {
  const char* size = size_name(*c.launcher, environment);
  const std::string rank = fmt::format("{}={}", c.launcher->rank, value_of(environment, c.launcher->rank));
  return size == nullptr ? rank : fmt::format("{} with {}={}", rank, size, value_of(environment, size));
}

Result<int> read_size(const Launcher& l, const Surroundings& here) {
  if (l.count != nullptr) return l.count(here);
  const char* name = size_name(l, here.environment);
  if (name == nullptr)
    return Status::invalid(fmt::format(
        "{}={} is set, and {} is not: set it to the number of ranks{}", l.rank, value_of(here.environment, l.rank),
        l.sizes[0], std::string_view(l.name) == "pmix" ? " (prterun -x UNISONO_SIZE=N ...)" : ", or unset both"));
  std::int64_t size = 0;
  const auto read = read_integer(here.environment, name, 1, kMaxRanks, size);
  if (!read) return read.status();
  return static_cast<int>(size);
}

/// How many ancestors have these variables, which are those of `of`, as this process has them.
std::size_t depth_of(std::span<const char* const> names, const Launcher& of, const Surroundings& here) {
  for (std::size_t i = 0; i < here.ancestors.size(); i++) {
    const Ancestor& a = here.ancestors[i];
    // Slurm's daemon gives a task what srun had, and adds Slurm's variables.
    if (a.name.starts_with("slurmstepd")) return std::string_view(of.name) == "slurm" ? i : i + 1;
    if (!a.environment) return i;
    for (const char* name : names) {
      const auto at = a.environment->find(name);
      const auto theirs = at == a.environment->end() ? std::nullopt : std::optional(at->second);
      if (theirs != here.environment(name)) return i;
    }
  }
  return here.ancestors.size();
}

std::size_t depth_of(const Launcher& l, const Surroundings& here) {
  std::vector<const char*> names{l.rank};
  names.insert(names.end(), l.sizes.begin(), l.sizes.end());
  names.insert(names.end(), l.marks.begin(), l.marks.end());
  // People give this one to the ranks of launchers that do not say how many there are.
  std::erase_if(names, [](const char* name) { return name == nullptr || std::string_view(name) == "UNISONO_SIZE"; });
  return depth_of(names, l, here);
}

Candidate look_at(const Launcher& l, const Surroundings& here) {
  Candidate c{&l, depth_of(l, here), std::nullopt, std::nullopt, {}};
  auto size = read_size(l, here);
  if (size)
    c.size = *size;
  else
    c.problem = size.status();
  std::int64_t rank = 0;
  const auto read = read_integer(here.environment, l.rank, 0, kMaxRanks, rank);
  if (read && *read)
    c.rank = rank;
  else if (!read)
    c.problem = read.status();
  return c;
}

bool is(const Candidate& c, std::string_view name) { return c.launcher->name == name; }

std::vector<Candidate> find_candidates(const Surroundings& here) {
  std::vector<Candidate> found;
  for (const Launcher& l : launchers()) {
    if (value_of(here.environment, l.rank).empty()) continue;
    if (l.is_it != nullptr && !l.is_it(here.environment)) continue;
    // A row that says less of the same variables (RANK without torchrun) is not another launcher.
    if (std::ranges::any_of(found, [&](const Candidate& c) { return std::string_view(c.launcher->rank) == l.rank; }))
      continue;
    found.push_back(look_at(l, here));
  }
  // Kubernetes counts pods: what was started inside of them counts ranks.
  if (found.size() > 1) std::erase_if(found, [](const Candidate& c) { return is(c, "kubernetes"); });
  return found;
}

bool agree(const Candidate& a, const Candidate& b) {
  // Of these a person says the size, perhaps to ranks of an outer launch.
  if (is(a, "pmix") || is(b, "pmix")) return a.rank == b.rank;
  return a.rank == b.rank && (!a.size || !b.size || *a.size == *b.size);
}

/// Whether `a` counts before `b`, which differs, where the ancestors do not tell.
bool surely_inside(const Candidate& a, const Candidate& b) {
  return is(a, "unisono") || (a.launcher->inside_slurm && is(b, "slurm"));
}

/// UNISONO_RANK and UNISONO_SIZE of a user's own: the word of a person, not of a launcher. `unisono run` sets a secret, too.
bool set_by_hand(const Candidate& c, const Environment& environment) {
  return is(c, "unisono") && !environment("UNISONO_SECRET_FD");
}

Result<Candidate> named_by_user(const std::string& name, const std::vector<Candidate>& candidates) {
  for (const Candidate& c : candidates)
    if (is(c, name)) return c;
  std::string names;
  for (const Launcher& l : launchers()) names += fmt::format("{}, ", l.name);
  return Status::invalid(fmt::format(
      "UNISONO_LAUNCHER=\"{}\": expected the launcher that started this process ({}or none), and its variables "
      "are not there",
      name, names));
}

/// The one that came last. `candidates` is not empty.
Result<Candidate> innermost(const std::vector<Candidate>& candidates, const Environment& environment) {
  for (const Candidate& c : candidates)
    if (set_by_hand(c, environment)) return c;
  std::size_t least = candidates[0].depth;
  for (const Candidate& c : candidates) least = std::min(least, c.depth);
  const Candidate* best = nullptr;
  for (const Candidate& c : candidates) {
    if (c.depth != least) continue;
    if (best == nullptr)
      best = &c;
    else if (!agree(*best, c) && !surely_inside(*best, c))
      return Status::invalid(fmt::format(
          "{} and {} are set, and it cannot be told which launcher started this process: unset the pair that is "
          "left over, or set UNISONO_LAUNCHER={} or UNISONO_LAUNCHER={} for all ranks",
          text_of_pair(*best, environment), text_of_pair(c, environment), best->launcher->name, c.launcher->name));
  }
  return *best;
}

/// What the ranks of another launcher inherited from an outer `unisono run`: its meeting place and its secret are the outer
/// job's. What somebody set between the two launches stays. A number of local ranks may be an outer launch's, too.
std::vector<std::string> left_over(const Surroundings& here, const std::vector<Candidate>& candidates,
                                   const Candidate& chosen) {
  std::vector<std::string> names;
  const char* local = "LOCAL_WORLD_SIZE";
  const bool older = depth_of(std::span(&local, 1), launchers()[0], here) > chosen.depth;
  if (older && chosen.depth < here.ancestors.size())
    if (const auto& outer = here.ancestors[chosen.depth].environment; outer && outer->contains("RANK"))
      names.emplace_back(local);
  for (const Candidate& outer : candidates) {
    if (!is(outer, "unisono") || is(chosen, "unisono") || set_by_hand(outer, here.environment)) continue;
    if (outer.depth <= chosen.depth) continue;
    for (const char* name : {"UNISONO_INIT_METHOD", "UNISONO_JOB", "UNISONO_SECRET_FD", "UNISONO_SECRET_DOOR",
                             "UNISONO_LOCAL_SIZE", "UNISONO_LOCAL_RANK", "UNISONO_SIZE"})
      if (depth_of(std::span(&name, 1), *outer.launcher, here) >= outer.depth) names.emplace_back(name);
  }
  return names;
}

/// Where to meet when the launcher says no more than who is who: at MASTER_ADDR if set, on one host under a name that is
/// the job's. Otherwise nobody can know.
Status meet_by_job(const Environment& environment, World& world) {
  if (world.size == 1) return {};
  if (environment("MASTER_ADDR")) {
    auto method = master_address(environment);
    if (!method) return method.status();
    world.init_method = std::move(*method);
    return {};
  }
  if (world.local_size == world.size) {
    world.init_method = "unix:@unisono-" + short_hash(fmt::format("{} {} {}", ::geteuid(), launch_scope(), world.job));
    return {};
  }
  return Status::invalid(
      fmt::format("{} started {} ranks {} and does not say where rank 0 is: export MASTER_ADDR and "
                  "MASTER_PORT, or UNISONO_INIT_METHOD=tcp://HOST:PORT or file://PATH, to all ranks",
                  world.launcher, world.size,
                  world.local_size == 0 ? "(all on one host? UNISONO_LOCAL_SIZE says so)" : "on several hosts"));
}

/// Operators that start one process a node and expect it to start the others.
Status check_for_unused_launch(const Environment& environment) {
  for (const char* name : {"PET_NNODES", "PET_NPROC_PER_NODE"}) {
    const std::string value = value_of(environment, name);
    if (value.empty() || value == "1" || value == "1:1") continue;
    return Status::invalid(
        fmt::format("{}=\"{}\" is set, and this process has no RANK: those are settings of a launcher, which was not "
                    "used. Start the program with `unisono run` or torchrun",
                    name, value));
  }
  return {};
}

/// The number of ranks without this one's: half of what a launcher sets.
Status check_for_lone_sizes(const Environment& environment) {
  for (const Launcher& l : launchers()) {
    if (l.count != nullptr || !value_of(environment, l.rank).empty()) continue;
    if (l.is_it != nullptr && !l.is_it(environment)) continue;
    const std::string size = value_of(environment, l.sizes[0]);
    if (!size.empty())
      return Status::invalid(fmt::format("{}={} is set, and {} is not: set it to this process's rank, or unset both",
                                         l.sizes[0], size, l.rank));
  }
  return {};
}

/// What says that there are other tasks, for a world of one: a person should hear of it.
std::string signs_of_others(const Environment& environment, const std::vector<Candidate>& candidates) {
  for (const Candidate& c : candidates)
    if (c.size.value_or(1) > 1 || c.rank.value_or(0) > 0) return text_of_pair(c, environment);
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "JOB_COMPLETION_INDEX"}) {
    const std::string value = value_of(environment, name);
    if (!value.empty() && (value != "1" || std::string_view(name) == "JOB_COMPLETION_INDEX"))
      return fmt::format("{}={}", name, value);
  }
  return {};
}

void warn_of_a_world_of_one(const Environment& environment, const std::vector<Candidate>& candidates, World& world) {
  if (world.size != 1) return;
  const std::string sign = signs_of_others(environment, candidates);
  if (sign.empty()) return;
  world.warning = fmt::format(
      "this process is a world of one (launcher: {}), and {} is set: {}", world.launcher, sign,
      sign.starts_with("JOB_COMPLETION_INDEX")
          ? "for one world of all pods set UNISONO_SIZE to the job's completions, and MASTER_ADDR and MASTER_PORT"
          : "if the tasks belong together, start the program with `unisono run -n N`, srun or mpirun");
}

/// `here` is without what is left over: a size that was read before may have been another job's.
Status fill(World& world, const Launcher& launcher, const Surroundings& here) {
  const Candidate c = look_at(launcher, here);
  if (!c.problem.ok()) return c.problem;
  if (*c.rank >= *c.size)
    return Status::invalid(fmt::format("{}: ranks go from 0 to {}", text_of_pair(c, here.environment), *c.size - 1));
  world.rank = static_cast<int>(*c.rank);
  world.size = *c.size;
  world.launcher = is(c, "pmi") ? "mpich" : c.launcher->name;
  UNISONO_TRY(launcher.describe(here, world));
  std::int64_t wanted = world.size;
  const auto said = read_integer(here.environment, "UNISONO_SIZE", 1, kMaxRanks, wanted);
  if (!said) return said.status();
  const char* name = "UNISONO_SIZE";  // it may also be meant for an outer launch
  if (wanted == world.size || depth_of(std::span(&name, 1), launchers()[0], here) > c.depth) return {};
  return Status::invalid(
      fmt::format("UNISONO_SIZE={} is set, and the launcher ({}) says {}: unset UNISONO_SIZE, or set "
                  "UNISONO_RANK, too",
                  wanted, world.launcher, text_of_pair(c, here.environment)));
}

}  // namespace

Result<World> detect_world(const Environment& all, const Ancestry& ancestry) {
  const std::vector<Ancestor> ancestors = ancestry ? ancestry() : std::vector<Ancestor>{};
  const Surroundings before{all, ancestors};
  std::vector<Candidate> candidates = find_candidates(before);
  World world;
  const std::string named = value_of(all, "UNISONO_LAUNCHER");
  std::optional<Candidate> chosen;
  if (named == "none") {
    candidates.clear();
  } else if (!named.empty() || !candidates.empty()) {
    auto found = named.empty() ? innermost(candidates, all) : named_by_user(named, candidates);
    if (!found) return found.status();
    chosen = std::move(*found);
    world.left_over = left_over(before, candidates, *chosen);
  }
  // Pods of an indexed job that share nothing say as much as pods of one world: only a size tells.
  if (chosen && is(*chosen, "kubernetes") && size_name(*chosen->launcher, all) == nullptr) chosen.reset();
  const Environment environment = without(all, world.left_over);
  if (chosen) {
    UNISONO_TRY(fill(world, *chosen->launcher, {environment, ancestors}));
  } else if (named.empty()) {
    UNISONO_TRY(check_for_lone_sizes(environment));
    UNISONO_TRY(check_for_unused_launch(environment));
  }
  warn_of_a_world_of_one(all, candidates, world);
  if (const auto job = environment("UNISONO_JOB"); job && !job->empty()) world.job = *job;
  if (const auto method = environment("UNISONO_INIT_METHOD"); method && !method->empty())
    world.init_method = *method;
  else if (chosen && world.init_method.empty())
    UNISONO_TRY(meet_by_job(environment, world));
  return world;
}

}  // namespace unisono::rendezvous
