#include "plan/host_map.h"

#include <algorithm>

namespace unisono::plan {

HostMap::HostMap(const Shape& shape) : HostMap(shape.ranks, shape.hosts) {}

HostMap HostMap::of_nodes(const Shape& shape) { return {shape.ranks, shape.nodes}; }

HostMap::HostMap(std::int32_t ranks, std::vector<std::int32_t> host_of_rank) : host_(std::move(host_of_rank)) {
  host_.resize(static_cast<std::size_t>(ranks), 0);
  for (std::int32_t q = 0; q < ranks; q++) {
    const auto host = static_cast<std::size_t>(host_of(q));
    if (members_.size() <= host) members_.resize(host + 1);
    place_.push_back(static_cast<std::int32_t>(members_[host].size()));
    members_[host].push_back(q);
  }
  const auto [least, most] =
      std::ranges::minmax_element(members_, {}, [](const std::vector<std::int32_t>& list) { return list.size(); });
  smallest_ = static_cast<std::int32_t>(least->size());
  largest_ = static_cast<std::int32_t>(most->size());
}

std::vector<std::int32_t> nearest_first(const Shape& shape) {
  const HostMap map = HostMap::of_nodes(shape);
  const std::int32_t own = map.host_of(shape.rank), place = map.place_of(shape.rank);
  std::vector<std::int32_t> order;
  for (std::int32_t i = 0; i < map.count(); i++) {
    const auto members = map.members((own + i) % map.count());
    const auto size = static_cast<std::int32_t>(members.size());
    // On its own node it is itself the last one of the round, and left out.
    for (std::int32_t k = 1; k <= size; k++)
      if (const std::int32_t q = members[static_cast<std::size_t>((place + k) % size)]; q != shape.rank)
        order.push_back(q);
  }
  return order;
}

std::vector<std::vector<std::int32_t>> sample_hosts(std::int32_t ranks) {
  std::vector<std::vector<std::int32_t>> samples;
  const auto add = [&](auto&& host_of) {
    std::vector<std::int32_t> hosts;
    for (std::int32_t q = 0; q < ranks; q++) hosts.push_back(host_of(q));
    if (std::ranges::find(samples, hosts) == samples.end()) samples.push_back(std::move(hosts));
  };
  add([](std::int32_t) { return 0; });
  for (const std::int32_t count : {2, 3, 4, 8}) {
    if (count >= ranks) break;
    if (ranks > 33 && count != 3) continue;  // large groups take long, and show nothing that smaller ones do not
    const std::int32_t each = (ranks + count - 1) / count;
    add([&](std::int32_t q) { return q / each; });                // neighbours together; the last host may have fewer
    add([&](std::int32_t q) { return q % count; });               // dealt out in turn
    add([&](std::int32_t q) { return std::min(q, count - 1); });  // one rank each, all others on the last host
    add([&](std::int32_t q) { return std::max(0, q - ranks + count); });  // all but a few on the first
  }
  return samples;
}

}  // namespace unisono::plan
