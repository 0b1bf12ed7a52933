/// mlx.launch: a rank in MLX_RANK, and a file that lists the ranks (ring, jaccl) or a number of
/// them (nccl).

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "rendezvous/crypto.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/host_identity.h"
#include "rendezvous/launchers.h"

namespace unisono::rendezvous {
namespace {

using nlohmann::json;

/// What the file named by `variable` lists, one entry a rank; nothing when the variable is not set.
/// mlx.launch leaves the file of a world of one empty.
Result<std::optional<json>> list_in(const Environment& environment, const char* variable) {
  const std::string path = value_of(environment, variable);
  if (path.empty()) return std::optional<json>();
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open())
    return Status::invalid(fmt::format(
        "{}=\"{}\": that file, which says how many ranks mlx.launch started, cannot be read; set UNISONO_RANK, "
        "UNISONO_SIZE and UNISONO_INIT_METHOD instead",
        variable, path));
  if (text.find_first_not_of(" \r\n\t") == std::string::npos) return std::optional<json>(json::array({json::array()}));
  json list = json::parse(text, nullptr, false);
  if (!list.is_array() || list.empty())
    return Status::invalid(
        fmt::format("{}=\"{}\": expected a list in JSON, with an entry for each rank", variable, path));
  return std::optional<json>(std::move(list));
}

/// The first address of each rank, without its port; empty where the launch names none.
std::vector<std::string> addresses(const json& list) {
  std::vector<std::string> hosts;
  for (const json& rank : list) {
    const json& first = rank.is_array() && !rank.empty() ? rank[0] : rank;
    const auto at = first.is_string() ? parse_endpoint(first.get<std::string>()) : Result<Endpoint>(Endpoint{});
    hosts.push_back(at ? at->host : "");
  }
  return hosts;
}

/// Two launches of one user on one host may look alike but for the process that started them.
std::string name_of_launch(const Surroundings& here) {
  for (const Ancestor& a : here.ancestors)
    if (a.environment && !a.environment->contains("MLX_RANK")) return fmt::format("{}.{}", a.pid, a.start_time);
  return "";
}

}  // namespace

Result<int> count_mlx(const Surroundings& here) {
  std::int64_t size = 0;
  const auto said = read_integer(here.environment, "MLX_WORLD_SIZE", 1, kMaxRanks, size);
  if (!said) return said.status();
  if (*said) return static_cast<int>(size);
  for (const char* variable : {"MLX_HOSTFILE", "MLX_IBV_DEVICES"}) {
    const auto list = list_in(here.environment, variable);
    if (!list) return list.status();
    if (*list) return static_cast<int>((*list)->size());
  }
  return Status::invalid(
      "MLX_RANK is set, and none of MLX_HOSTFILE, MLX_IBV_DEVICES and MLX_WORLD_SIZE says how many ranks there are: "
      "start the program with mlx.launch or `unisono run`, or set MLX_WORLD_SIZE");
}

Status describe_mlx(const Surroundings& here, World& world) {
  const Environment& environment = here.environment;
  const auto list = list_in(environment, "MLX_HOSTFILE");
  if (!list) return list.status();
  std::vector<std::string> hosts;
  if (*list) hosts = addresses(**list);
  if (const auto at = parse_endpoint(value_of(environment, "MLX_JACCL_COORDINATOR")); at) hosts = {at->host};
  if (const auto host = environment("NCCL_HOST_IP")) hosts = {*host};
  const bool every_rank = hosts.size() == static_cast<std::size_t>(world.size);
  if (every_rank && std::ranges::all_of(hosts, [](const std::string& host) { return is_loopback(host); }))
    world.local_size = world.size;
  std::string launch =
      *list ? (*list)->dump() : value_of(environment, "MLX_JACCL_COORDINATOR") + (hosts.empty() ? "" : hosts[0]);
  if (world.local_size == world.size) launch += name_of_launch(here) + launch_scope();
  world.job = "mlx-" + short_hash(launch);
  const bool told = environment("MASTER_ADDR") || !value_of(environment, "UNISONO_INIT_METHOD").empty();
  if (world.size > 1 && world.local_size != world.size && !told && !hosts.empty() && !hosts[0].empty())
    world.init_method =
        "tcp://" + to_string(Endpoint{hosts[0], static_cast<std::uint16_t>(port_of_job(world.job)), ""});
  return {};
}

}  // namespace unisono::rendezvous
