/// Slurm: tasks of a step, that is of srun. A shell of sbatch or salloc is one process, whatever
/// was allocated.

#include <fmt/format.h>

#include <fstream>

#include "rendezvous/launchers.h"

namespace unisono::rendezvous {
namespace {

/// "node[01-04,07],x3" -> "node01"
std::string first_host(std::string_view list) {
  const auto bracket = list.find('[');
  const auto comma = list.find(',');
  if (bracket == std::string_view::npos || comma < bracket) return std::string(list.substr(0, comma));
  const auto inside = list.substr(bracket + 1);
  return std::string(list.substr(0, bracket)) + std::string(inside.substr(0, inside.find_first_of(",-]")));
}

/// Rank 0's host. Slurm sorts the list of nodes; with --distribution=arbitrary the tasks go by
/// lines of a file instead.
Result<std::string> host_of_rank_0(const Environment& environment) {
  if (!value_of(environment, "SLURM_DISTRIBUTION").starts_with("arbitrary"))
    return first_host(value_of(environment, "SLURM_STEP_NODELIST"));
  const std::string path = value_of(environment, "SLURM_HOSTFILE");
  std::string line;
  if (std::ifstream file(path); !path.empty() && std::getline(file, line)) {
    const auto end = line.find_first_of(" \t\r*#");  // "host*3" is a host three times
    line.resize(std::min(end, line.size()));
    if (!line.empty()) return line;
  }
  return Status::invalid(fmt::format(
      "srun --distribution=arbitrary: rank 0 need not be on the first node of {}, and SLURM_HOSTFILE=\"{}\" "
      "cannot be read here: export MASTER_ADDR (rank 0's host) and MASTER_PORT (a free port there), or "
      "UNISONO_INIT_METHOD=file://PATH, to all ranks",
      value_of(environment, "SLURM_STEP_NODELIST"), path));
}

}  // namespace

/// The shells that sbatch and salloc start may be steps too, of one task, with ids that srun's do
/// not reach.
bool is_slurm_step(const Environment& environment) {
  constexpr std::int64_t kFirstOfSlurm = 0xfffffff0;
  std::int64_t step = 0;
  const auto read = read_integer(environment, "SLURM_STEP_ID", 0, kFirstOfSlurm - 1, step);
  return environment("SLURM_STEP_NUM_TASKS").has_value() && read.ok();
}

Status describe_slurm(const Surroundings& here, World& world) {
  const Environment& environment = here.environment;
  world.job = fmt::format("slurm-{}.{}", value_of(environment, "SLURM_JOB_ID"), value_of(environment, "SLURM_STEP_ID"));
  if (value_of(environment, "SLURM_STEP_NUM_NODES") == "1") world.local_size = world.size;
  const bool told = environment("MASTER_ADDR") || !value_of(environment, "UNISONO_INIT_METHOD").empty();
  if (world.size == 1 || world.local_size == world.size || told || !environment("SLURM_STEP_NODELIST")) return {};
  const auto host = host_of_rank_0(environment);
  if (!host) return host.status();
  world.init_method = fmt::format("tcp://{}:{}", *host, port_of_job(world.job));
  return {};
}

}  // namespace unisono::rendezvous
