#include "simulate/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "plan/host_map.h"
#include "simulate/fabric.h"

namespace unisono::simulate {

namespace {

/// Gives every rank a NUMA node of the model, neighbours in number together, where the shape does not say which.
Status seat(plan::Shape& shape, std::int32_t hosts, const Numa& numa) {
  if (numa.nodes == 0) {
    shape.nodes.clear();  // nothing is known of what is between them
    return {};
  }
  if (hosts > 1) return Status::invalid(fmt::format("NUMA nodes are simulated for one host, and there are {}", hosts));
  if (shape.nodes.empty())
    for (std::int64_t q = 0; q < shape.ranks; q++)
      shape.nodes.push_back(static_cast<std::int32_t>(q * numa.nodes / shape.ranks));
  std::vector<std::int32_t> seats(static_cast<std::size_t>(numa.nodes), 0);
  for (const std::int32_t node : shape.nodes) {
    if (node >= numa.nodes) return Status::invalid(fmt::format("the model has {} NUMA nodes", numa.nodes));
    if (++seats[static_cast<std::size_t>(node)] > numa.cores)
      return Status::invalid(
          fmt::format("more than {} ranks on NUMA node {}, which has as many cores", numa.cores, node));
  }
  return {};
}

bool several_nodes(const plan::Shape& shape) {
  const plan::HostMap map = plan::HostMap::of_nodes(shape);
  return map.count() > 1 && map.count() < shape.ranks;
}

}  // namespace

Result<Simulation> Simulation::make(const plan::Algorithm& algorithm, plan::Shape shape, const Model& model) {
  if (shape.hosts.empty()) {
    shape.hosts.resize(static_cast<std::size_t>(shape.ranks));
    if (!plan::needs_one_host(algorithm.place)) std::iota(shape.hosts.begin(), shape.hosts.end(), 0);
  }
  const std::int32_t hosts = *std::max_element(shape.hosts.begin(), shape.hosts.end()) + 1;
  if (plan::needs_one_host(algorithm.place) && hosts > 1)
    return Status::invalid(fmt::format("it needs shared memory, and there are {} hosts", hosts));
  if (algorithm.place == plan::Place::several_hosts && (hosts == 1 || hosts == shape.ranks))
    return Status::invalid("it needs several hosts, and several ranks on some of them");
  UNISONO_TRY(seat(shape, hosts, model.numa));
  if (algorithm.place == plan::Place::several_nodes && !several_nodes(shape))
    return Status::invalid("it needs several NUMA nodes, and several ranks on some of them");
  auto world = build_world(algorithm, shape);
  if (!world) return world.status();
  return Simulation(std::move(world).value(), model);
}

std::int64_t default_slice(const World& world) {
  constexpr std::int64_t network = 256 << 10, budget = 4 << 20, window = 4;
  if (!world.staged) return network;
  // As engine/domain.cc has it: all stages together stay in the caches.
  const std::int64_t n = world.shape.ranks;
  return std::clamp<std::int64_t>(budget / (n * n * window) / 4096 * 4096, 32 << 10, 256 << 10);
}

Result<Answer> Simulation::time(std::int64_t bytes, const Options& options) const {
  Answer answer;
  answer.bytes = world_.blocks == 0 ? 0 : bytes;
  Slicing slicing;
  slicing.block = world_.blocks == 0 ? 0 : static_cast<double>(bytes) / world_.blocks;
  slicing.window = options.window;
  slicing.slice = options.slice > 0 ? options.slice : default_slice(world_);
  if (world_.shared) slicing.slice = std::max<std::int64_t>(1, bytes);  // one slice, whatever its size
  answer.slice = slicing.slice;
  answer.slices = slices_of(slicing);
  answer.messages = static_cast<double>(world_.messages) * static_cast<double>(answer.slices);

  const bool crossbar = model_.topology.kind == Topology::Kind::crossbar;
  const bool alike = world_.copies > 1;
  if (options.how == How::one_host && !alike)
    return Status::invalid("the hosts' plans differ: no host can stand for all");
  std::string why_not;
  for (const Picture picture : {Picture::one_host, Picture::whole, Picture::one_host}) {
    const bool shortcut = picture == Picture::one_host;
    if (shortcut && (!alike || options.how == How::every_rank)) continue;
    if (!shortcut && options.how == How::one_host) continue;
    // With links between hosts every rank comes first, and one host is what is left when there are too many.
    if (shortcut && !crossbar && why_not.empty() && options.how == How::automatic) continue;
    auto fabric = Fabric::make(model_, world_, picture);
    if (!fabric) return fabric.status();
    const double events = expected_events(world_, *fabric, picture, slicing, model_.fair);
    if (events > options.most_events) {
      why_not = fmt::format("{:.1e} events, at most {:.0e} are simulated: {}", events, options.most_events,
                            answer.slices > 1 ? "take larger slices, fewer bytes, or fewer ranks" : "take fewer ranks");
      continue;
    }
    auto timing = run(model_, world_, std::move(fabric).value(), picture, slicing);
    if (!timing) return timing.status();
    answer.timing = std::move(timing).value();
    answer.picture = picture;
    answer.estimate = shortcut && !crossbar;
    return answer;
  }
  return Status::invalid(why_not);
}

std::string Simulation::describe(const Answer& answer) const {
  if (answer.picture == Picture::whole) return "every rank";
  return fmt::format("{} for all {}{}", world_.classes == 1 ? "one rank" : "one host", world_.hosts,
                     answer.estimate ? ", an estimate" : "");
}

}  // namespace unisono::simulate
