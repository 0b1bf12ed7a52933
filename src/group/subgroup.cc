/// Groups within a group, made by their members only.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "group/exchange.h"
#include "group/group_impl.h"
#include "rendezvous/answer_by.h"

namespace unisono::detail {

namespace {
std::uint64_t mix(std::uint64_t h, std::uint64_t value) {
  h ^= value + 0x9e3779b97f4a7c15ull + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdull;
}
}  // namespace

Status GroupImpl::no_use_in_waiting_for(const std::vector<int>& ranks) const {
  parts_.context->messenger->poll(engine::Look::all);
  if (parts_.failure->failed()) return parts_.failure->status();  // whoever has not called subgroup() yet, cannot now
  return parts_.context->messenger->departure(parts_.id, ranks);
}

std::shared_ptr<GroupImpl> GroupImpl::subgroup(std::span<const int> ranks, Duration timeout) {
  check_usable();
  const auto refuse = [&](const std::string& why) {
    throw InvalidArgument(fmt::format("subgroup {{{}}} of group \"{}\": {}", fmt::join(ranks, ", "), parts_.name, why));
  };
  if (ranks.empty()) refuse("it has no ranks");
  for (std::size_t i = 0; i < ranks.size(); i++) {
    if (ranks[i] < 0 || ranks[i] >= size())
      refuse(fmt::format("rank {} is out of range: the group has ranks 0 to {}", ranks[i], size() - 1));
    if (std::find(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(i), ranks[i]) !=
        ranks.begin() + static_cast<std::ptrdiff_t>(i))
      refuse(fmt::format("rank {} is named twice", ranks[i]));
  }
  const auto mine = std::find(ranks.begin(), ranks.end(), rank());
  if (mine == ranks.end())
    refuse(fmt::format("rank {} called it but is not one of its members; only members make it", rank()));

  // The members agree on a name without a word to the others: who they are, and the how-many-th group of these ranks it is.
  std::vector<int> list(ranks.begin(), ranks.end());
  int ordinal = 0;
  {
    const std::lock_guard lock(subgroup_mutex_);
    ordinal = subgroups_made_[list]++;
  }
  std::uint64_t id = mix(parts_.id, static_cast<std::uint64_t>(ordinal));
  for (const int r : list) id = mix(id, static_cast<std::uint64_t>(r) + 1);

  ContextImpl& c = *parts_.context;
  c.sweep();
  Parts parts;
  parts.context = parts_.context;
  parts.store = parts_.store;
  parts.id = id;
  parts.rank = static_cast<int>(mine - ranks.begin());
  parts.name =
      fmt::format("{}/{{{}}}{}", parts_.name, fmt::join(list, ","), ordinal == 0 ? "" : fmt::format("#{}", ordinal));
  parts.server = parts_.server;
  if (parts.server) {
    const auto serves = std::find(list.begin(), list.end(), parts.server->rank);
    parts.server->rank = serves == list.end() ? -1 : static_cast<int>(serves - list.begin());
  }
  parts.failure = std::make_shared<engine::Failure>();
  const int n = static_cast<int>(list.size());
  bool all_share = true, any_share = false;
  for (const int r : list) {
    Member m = parts_.members[static_cast<std::size_t>(r)];
    if (r != rank()) (m.shares_memory ? any_share : all_share) = m.shares_memory;
    parts.members.push_back(std::move(m));
  }
  parts.transport = n == 1                        ? "self"
                    : parts_.transport == "mixed" ? (all_share   ? "shm"
                                                     : any_share ? "mixed"
                                                                 : "tcp")
                                                  : parts_.transport;
  parts.tuned = parts_.tuned;
  parts.overrides = parts_.overrides;
  parts.deterministic = parts_.deterministic;
  const TimePoint began = c.clock.now(), deadline = saturating_add(began, timeout);
  std::vector<std::uint64_t> control(list.size());
  if (n > 1) {
    if (c.stages != nullptr && all_share)
      parts.domain = value_or_throw(engine::Domain::create(*c.stages, parts.rank, n));
    const auto asked = rendezvous::in_time(parts.store, saturating_add(deadline, group::kLastAnswers));
    const group::Party party{*asked,
                             fmt::format("group/{:016x}", id),
                             parts.rank,
                             n,
                             timeout,
                             c.clock,
                             [&] { return no_use_in_waiting_for(list); },
                             parts_.server};
    const auto offsets = group::exchange(party, std::to_string(parts.domain ? parts.domain->control_offset() : 0));
    if (!offsets)
      throw_status(offsets.status().with_context(
          fmt::format("rank {} waited {:.1f} s for the others to make \"{}\"", rank(),
                      std::chrono::duration<double>(c.clock.now() - began).count(), parts.name)));
    for (std::size_t i = 0; i < control.size(); i++) control[i] = std::stoull((*offsets)[i]);
  }
  throw_status(connect(parts, control, deadline));
  auto impl = GroupImpl::create(std::move(parts));
  c.progress->enlist(impl);
  c.cycles->enlist(impl->parts().id, impl);
  return impl;
}

}  // namespace unisono::detail
