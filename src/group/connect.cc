/// The part that joining and subgroups share: connections, what is shared within a host, selection.

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "engine/domain.h"
#include "group/group_impl.h"
#include "tuning/topology.h"

namespace unisono::detail {

namespace {
/// plan::Shape's numbers of what `of` names: from 0, in the order of the lowest ranks. Returns how
/// many there are.
std::size_t number(const std::vector<Member>& members, int Member::* of, std::vector<std::int32_t>& numbers) {
  std::map<int, std::int32_t> known;
  for (const Member& m : members)
    numbers.push_back(known.try_emplace(m.*of, static_cast<std::int32_t>(known.size())).first->second);
  return known.size();
}

void number_hosts(Parts& parts) {
  const std::size_t hosts = number(parts.members, &Member::machine, parts.hosts);
  parts.several_hosts = hosts > 1 && hosts < parts.members.size();
}

/// Of ranks that all share memory and all know their node.
void number_nodes(Parts& parts) {
  const auto unknown = [&](const Member& m) { return !m.shares_memory || m.node < 0; };
  if (std::any_of(parts.members.begin(), parts.members.end(), unknown)) return;
  const std::size_t nodes = number(parts.members, &Member::node, parts.nodes);
  parts.several_nodes = nodes > 1 && nodes < parts.members.size() && !parts.deterministic;
  if (nodes > 1 && parts.rank == 0)
    parts.context->log.info(fmt::format("group \"{}\" is on {} NUMA nodes: {} (node x ranks)", parts.name, nodes,
                                        tuning::layout_text(parts.nodes)));
}

// At what the store says of ranks that do not come.
constexpr Duration kBetweenLooks = std::chrono::milliseconds(100);

/// Whether every rank can read every other's memory: each has tried when it met the others, and
/// says so where all can see it.
Status agree_on_reach(Parts& parts, TimePoint deadline) {
  ContextImpl& c = *parts.context;
  engine::Domain& domain = *parts.domain;
  domain.publish_reach(c.config.peer_memory);
  const auto somebody_left = [&] {
    for (const Member& m : parts.members)
      if (m.peer >= 0 && !c.messenger->shared(m.peer)->alive()) return true;
    return false;
  };
  const auto outcome =
      c.progress->wait(nullptr, deadline, nullptr, [&] { return domain.reach_known() || somebody_left(); });
  if (outcome != group::Progress::Outcome::done)
    return Status::timeout(fmt::format("not all ranks of group \"{}\" came so far in time", parts.name), {});
  parts.peer_memory = domain.reach_known() && domain.all_reach();
  return {};
}
}  // namespace

Status connect(Parts& parts, const std::vector<std::uint64_t>& control, TimePoint deadline,
               const std::function<Status(const std::vector<int>& missing)>& watch) {
  number_hosts(parts);
  number_nodes(parts);
  ContextImpl& c = *parts.context;
  const int n = static_cast<int>(parts.members.size()), me = parts.rank;
  auto selector = plan::Selector::parse(parts.overrides, parts.tuned);
  if (!selector) return selector.status().with_context("UNISONO_ALGORITHM of rank 0");
  parts.selector = std::move(selector).value();
  // Whom to reach now: everybody who shares memory (the higher rank dials), and over the network
  // those at a distance of 2^i, so that the news of a failure reaches all even when some are dead.
  // Other network links come when a plan first needs them.
  std::vector<int> needed;
  for (int q = 0; q < n; q++) {
    if (q == me) continue;
    const int distance = (q - me + n) % n, back = (me - q + n) % n;
    const bool ours = (distance & (distance - 1)) == 0, theirs = (back & (back - 1)) == 0;
    const bool shared = parts.members[static_cast<std::size_t>(q)].shares_memory;
    if (!shared && !ours && !theirs) continue;
    needed.push_back(q);
    const bool dials = shared ? me > q : (ours && theirs ? me > q : ours);
    if (dials) c.messenger->dial(parts.members[static_cast<std::size_t>(q)].peer, deadline);
  }
  const auto missing = [&] {
    std::vector<int> list;
    for (const int q : needed)
      if (!c.messenger->connected(parts.members[static_cast<std::size_t>(q)].peer)) list.push_back(q);
    return list;
  };
  Status failed;
  TimePoint next_look = saturating_add(c.clock.now(), kBetweenLooks);
  const auto outcome = c.progress->wait(nullptr, deadline, nullptr, [&] {
    const auto list = missing();
    for (const int q : list)
      if (Status s = c.messenger->peer_status(parts.members[static_cast<std::size_t>(q)].peer); !s.ok()) {
        failed = s.with_context(fmt::format("rank {} of group \"{}\" cannot reach rank {}", me, parts.name, q));
        return true;
      }
    if (watch && !list.empty() && c.clock.now() >= next_look) {
      failed = watch(list);
      next_look = saturating_add(c.clock.now(), kBetweenLooks);
      if (!failed.ok()) return true;
    }
    return list.empty();
  });
  if (!failed.ok()) return failed;
  if (outcome != group::Progress::Outcome::done)
    return Status::timeout(
        fmt::format("rank {} of group \"{}\" published its address, but no connection came about in time",
                    missing().front(), parts.name),
        missing());
  bool one_host = true;
  for (const Member& m : parts.members) one_host &= m.shares_memory;
  if (!one_host) parts.domain.reset();
  if (parts.domain)
    for (int q = 0; q < n; q++)
      if (q != me)
        UNISONO_TRY(parts.domain->attach(q, c.messenger->shared(parts.members[static_cast<std::size_t>(q)].peer),
                                         control[static_cast<std::size_t>(q)]));
  if (parts.domain) UNISONO_TRY(agree_on_reach(parts, deadline));
  std::vector<int> peers;
  for (const Member& m : parts.members) peers.push_back(m.peer);
  c.messenger->open_group(parts.id, parts.name, me, std::move(peers), parts.failure);
  return {};
}

}  // namespace unisono::detail
