#include "cli/plan_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

namespace unisono::cli {

namespace {

std::vector<std::int32_t> listed_hosts(const PlanOptions& o) {
  std::vector<std::int32_t> hosts;
  std::int32_t host = 0;
  for (std::size_t begin = 0; begin < o.hosts.size(); host++) {
    const std::size_t end = std::min(o.hosts.find(',', begin), o.hosts.size());
    const std::string part = o.hosts.substr(begin, end - begin);
    char* rest = nullptr;
    const long ranks = std::strtol(part.c_str(), &rest, 10);
    if (part.empty() || *rest != '\0' || ranks < 1 || ranks > o.ranks)
      throw UsageError(fmt::format("--hosts {}: write how many ranks each host has, such as 2,2", o.hosts));
    hosts.insert(hosts.end(), static_cast<std::size_t>(ranks), host);
    begin = end + 1;
  }
  if (!hosts.empty() && static_cast<int>(hosts.size()) != o.ranks)
    throw UsageError(fmt::format("--hosts {} has {} ranks, and -n says {}", o.hosts, hosts.size(), o.ranks));
  return hosts;
}

}  // namespace

std::vector<std::string_view> algorithm_names(Collective collective) {
  std::vector<std::string_view> names;
  for (const plan::Algorithm& a : plan::algorithms()) {
    if (a.collective == collective) names.push_back(a.name);
  }
  return names;
}

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i < kCollectives; i++) names.push_back(name_of(static_cast<Collective>(i)));
  return names;
}

std::string_view place_name(plan::Place place) {
  constexpr std::string_view names[] = {"network", "shared memory", "shared buffers", "peers' memory", "several hosts"};
  return names[static_cast<std::size_t>(place)];
}

std::vector<std::int32_t> hosts_of(const PlanOptions& o) {
  if (o.per_host == 0) return listed_hosts(o);
  if (!o.hosts.empty()) throw UsageError("--hosts and --per-host say the same thing: give one of them");
  if (o.per_host < 1) throw UsageError(fmt::format("--per-host {}: at least one rank", o.per_host));
  std::vector<std::int32_t> hosts(static_cast<std::size_t>(std::max(o.ranks, 0)));
  for (std::int32_t q = 0; q < o.ranks; q++) hosts[static_cast<std::size_t>(q)] = q / o.per_host;
  return hosts;
}

void check_group(const PlanOptions& o) {
  if (o.collective.empty()) {
    throw UsageError(fmt::format("which collective? There are {}", fmt::join(collective_names(), ", ")));
  }
  if (o.ranks < 1) throw UsageError("give the number of ranks, at least 1, with -n");
  if (o.root < 0 || o.root >= o.ranks)
    throw UsageError(fmt::format("root {} is not one of the {} ranks 0..{}", o.root, o.ranks, o.ranks - 1));
  if (o.rank < -1 || o.rank >= o.ranks)
    throw UsageError(fmt::format("rank {} is not one of the {} ranks 0..{}", o.rank, o.ranks, o.ranks - 1));
}

Collective collective_of(const PlanOptions& o) {
  const auto collective = collective_from_name(o.collective);
  if (!collective) {
    throw UsageError(
        fmt::format("no collective \"{}\": there are {}", o.collective, fmt::join(collective_names(), ", ")));
  }
  if (!rooted(*collective) && o.root != 0) throw UsageError(fmt::format("{} has no root", o.collective));
  return *collective;
}

plan::Selector selector() {
  const char* overrides = std::getenv("UNISONO_ALGORITHM");
  return or_usage_error(plan::Selector::parse(overrides == nullptr ? "" : overrides), "UNISONO_ALGORITHM: ");
}

const plan::Algorithm& named_algorithm(const PlanOptions& o) {
  const Collective collective = collective_of(o);
  const plan::Algorithm* found = plan::find_algorithm(collective, o.algorithm);
  if (found == nullptr) {
    throw UsageError(fmt::format("no algorithm \"{}\" for {}: there are {}", o.algorithm, o.collective,
                                 fmt::join(algorithm_names(collective), ", ")));
  }
  return *found;
}

}  // namespace unisono::cli
