#include "plan/host_map.h"

#include <algorithm>

namespace unisono::plan {

HostMap::HostMap(const Shape& shape) : host_(shape.hosts) {
  host_.resize(static_cast<std::size_t>(shape.ranks), 0);
  for (std::int32_t q = 0; q < shape.ranks; q++) {
    const auto host = static_cast<std::size_t>(host_of(q));
    if (members_.size() <= host) members_.resize(host + 1);
    place_.push_back(static_cast<std::int32_t>(members_[host].size()));
    members_[host].push_back(q);
  }
  const auto [least, most] =
      std::ranges::minmax_element(members_, {}, [](const std::vector<std::int32_t>& ranks) { return ranks.size(); });
  smallest_ = static_cast<std::int32_t>(least->size());
  largest_ = static_cast<std::int32_t>(most->size());
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
