#include "cli/plan_options.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

namespace unisono::cli {

namespace {

/// "2,2", the value of `option`, as 0 0 1 1.
std::vector<std::int32_t> listed(const char* option, const char* what, const std::string& text, int all) {
  std::vector<std::int32_t> list;
  std::int32_t number = 0;
  for (std::size_t begin = 0; begin < text.size(); number++) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    char* rest = nullptr;
    const long ranks = std::strtol(part.c_str(), &rest, 10);
    if (part.empty() || *rest != '\0' || ranks < 1 || ranks > all)
      throw UsageError(fmt::format("{} {}: write how many ranks each {} has, such as 2,2", option, text, what));
    list.insert(list.end(), static_cast<std::size_t>(ranks), number);
    begin = end + 1;
  }
  if (!list.empty() && static_cast<int>(list.size()) != all)
    throw UsageError(fmt::format("{} {} has {} ranks, and -n says {}", option, text, list.size(), all));
  return list;
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
  names.reserve(kCollectives);
  for (int i = 0; i < kCollectives; i++) names.push_back(name_of(static_cast<Collective>(i)));
  return names;
}

std::string_view place_name(plan::Place place) {
  constexpr std::string_view names[] = {"network",       "shared memory", "shared buffers", "shared outputs",
                                        "peers' memory", "several hosts", "several nodes"};
  return names[static_cast<std::size_t>(place)];
}

std::vector<std::int32_t> hosts_of(const PlanOptions& o) {
  if (o.per_host == 0) return listed("--hosts", "host", o.hosts, o.ranks);
  if (!o.hosts.empty()) throw UsageError("--hosts and --per-host say the same thing: give one of them");
  if (o.per_host < 1) throw UsageError(fmt::format("--per-host {}: at least one rank", o.per_host));
  std::vector<std::int32_t> hosts(static_cast<std::size_t>(std::max(o.ranks, 0)));
  for (std::int32_t q = 0; q < o.ranks; q++) hosts[static_cast<std::size_t>(q)] = q / o.per_host;
  return hosts;
}

std::vector<std::int32_t> nodes_of(const PlanOptions& o) {
  auto nodes = listed("--nodes", "NUMA node", o.nodes, o.ranks);
  const auto hosts = hosts_of(o);
  if (!nodes.empty() && !hosts.empty() && hosts.back() > 0)
    throw UsageError("--nodes are the NUMA nodes of one host, and --hosts says that there are several");
  return nodes;
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
