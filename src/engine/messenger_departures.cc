/// Who leaves a group, or the job, in good order: how it is said, and what becomes of those who
/// wait.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "engine/messenger.h"

namespace unisono::engine {

namespace {
constexpr std::string_view kTakingPart = "taking part in what the others call";

/// A bit a rank.
bool is_told(std::span<const std::byte> told, int rank) noexcept {
  const auto at = static_cast<std::size_t>(rank) / 8;
  return at >= told.size() || (std::to_integer<unsigned>(told[at]) >> (rank % 8) & 1U) != 0;
}
void note_told(std::vector<std::byte>& told, int rank) noexcept {
  told[static_cast<std::size_t>(rank) / 8] |= std::byte{1} << (rank % 8);
}
}  // namespace

void Messenger::close_group(std::uint64_t id, std::uint64_t collectives, const std::shared_ptr<UnderWay>& counted) {
  Completion::Callbacks callbacks;
  {
    const std::lock_guard lock(mutex_);
    GroupState* group = find(id);
    if (group == nullptr) return;
    const Status status =
        Status::invalid(fmt::format("group \"{}\" was destroyed while this message was in flight", group->name));
    group->inbox.forget(nullptr, status, deferred_);
    for (const int peer : group->members)
      if (peer >= 0) peers_[peer].bundle.forget(id, nullptr, status, deferred_);
    forget_handovers(id, nullptr, status, true);
    const bool failed = group->failure->failed();
    Membership membership = std::move(static_cast<Membership&>(*group));
    found_ = nullptr;
    groups_.erase(id);
    FrameHeader header;
    header.kind = FrameKind::leave;
    header.group = id;
    if (failed) pass_on_departures(membership, header);
    header.sequence = static_cast<std::uint64_t>(membership.rank);
    header.place = collectives;
    tell_departure(membership, header, counted);
    if (!all_gone(membership)) closed_groups_[id] = std::move(membership);
    callbacks = deferred_.take();
  }
  run(callbacks);
}

// --- telling -------------------------------------------------------------------------------------

/// Those to whom there is no link have nothing from here that the news could overtake: they hear it
/// from others.
void Messenger::tell_departure(const Membership& membership, FrameHeader header,
                               const std::shared_ptr<UnderWay>& counted) {
  const int n = membership.size();
  std::vector<std::byte> told(static_cast<std::size_t>(n + 7) / 8);
  std::vector<int> linked;
  bool all = true;
  for (int r = 0; r < n; r++) {
    const int peer = membership.members[static_cast<std::size_t>(r)];
    const bool reached = peer < 0 || peers_[peer].gone() || !peers_[peer].bundle.empty() || peers_[peer].dialing > 0;
    all &= reached;
    if (reached) note_told(told, r);
    if (reached && peer >= 0 && !peers_[peer].gone()) linked.push_back(peer);
  }
  if (all) told.clear();
  header.length = told.size();
  for (const int peer : linked) send_departure(peer, header, told, counted);
}

/// Who leaves because others have left says so first: nobody is to take it for the cause.
void Messenger::pass_on_departures(const Membership& membership, FrameHeader header) {
  for (int rank = 0; rank < membership.size(); rank++) {
    const Membership::Departure& departure = membership.departures[static_cast<std::size_t>(rank)];
    if (!departure.said) continue;
    header.sequence = static_cast<std::uint64_t>(rank);
    header.place = departure.collectives;
    for (const int peer : membership.members)
      if (peer >= 0 && !peers_[peer].gone() && !peers_[peer].bundle.empty()) send_departure(peer, header, {}, nullptr);
  }
}

/// Each rank passes it on to those at a distance of a power of two that is larger than its own from
/// the rank that left, to which all have links: so everybody has it once.
void Messenger::forward_departure(const Membership& membership, const FrameHeader& header,
                                  std::span<const std::byte> told) {
  if (told.empty()) return;
  const int rank = static_cast<int>(header.sequence);
  const auto n = static_cast<unsigned>(membership.size());
  const unsigned distance = (static_cast<unsigned>(membership.rank - rank) + n) % n;
  for (unsigned step = std::bit_floor(distance) * 2; distance + step < n; step *= 2) {
    const int to = static_cast<int>((static_cast<unsigned>(membership.rank) + step) % n);
    if (!is_told(told, to)) send_departure(membership.members[static_cast<std::size_t>(to)], header, told, nullptr);
  }
}

void Messenger::send_departure(int peer, const FrameHeader& header, std::span<const std::byte> told,
                               const std::shared_ptr<UnderWay>& counted) {
  OutFrame frame;
  frame.header = header;
  frame.owned.assign(told.begin(), told.end());
  frame.parts = {transport::ConstPart(frame.owned)};
  if (counted != nullptr) frame.completion = std::make_shared<Completion>(counted);
  enqueue(peer, std::move(frame));
}

// --- hearing -------------------------------------------------------------------------------------

void Messenger::on_leave(int from, const FrameHeader& header, std::span<const std::byte> told) {
  const std::uint64_t id = header.group;
  GroupState* const group = find(id);
  const auto closed = closed_groups_.find(id);
  if (group == nullptr && closed == closed_groups_.end()) {
    early_leaves_[id].push_back({from, header, {told.begin(), told.end()}});
    return;
  }
  Membership& membership = group != nullptr ? *group : closed->second;
  const int teller = membership.rank_of(from);
  if (teller < 0 || header.sequence >= membership.members.size()) return;
  const int rank = static_cast<int>(header.sequence);
  if (rank == membership.rank) return;
  // Of that earlier group, from one that has not left it yet, as far as is known here.
  if (teller != rank && membership.departures[static_cast<std::size_t>(teller)].owed > 0) return;
  Membership::Departure& departure = membership.departures[static_cast<std::size_t>(rank)];
  const bool passed_on = teller != rank && told.empty();
  if (departure.over || (passed_on && (departure.said || departure.owed > 0))) return;
  forward_departure(membership, header, told);
  if (departure.owed > 0) {
    departure.owed--;
    return;
  }
  departure.over = !passed_on;
  if (!std::exchange(departure.said, true)) departure.collectives = header.place;
  if (group != nullptr)
    note_left(id, *group, rank);
  else if (all_gone(membership))
    closed_groups_.erase(closed);
}

/// It came behind the heads of all that the rank has sent; parts may still be under way on other
/// streams.
void Messenger::note_left(std::uint64_t id, GroupState& group, int rank) {
  Membership::Departure& departure = group.departures[static_cast<std::size_t>(rank)];
  if (!departure.said || departure.left) return;
  if (peers_[group.members[static_cast<std::size_t>(rank)]].bundle.incoming().holds(id)) return;
  departure.left = true;
  member_gone(id, group, rank);
}

void Messenger::member_gone(std::uint64_t id, GroupState& group, int rank) {
  group.failure->note_departure();
  group.inbox.fail_messages(
      gone_locked(group), rank,
      gone_status(group, rank, fmt::format("sending the message that rank {} waits for", group.rank)), deferred_);
  Peer& peer = peers_[group.members[static_cast<std::size_t>(rank)]];
  peer.bundle.forget(
      id, nullptr, gone_status(group, rank, fmt::format("receiving what rank {} sends to it", group.rank)), deferred_);
  poller_.wake();  // whoever sleeps in this process should look
}

void Messenger::peer_left(int index) {
  Peer& peer = peers_[index];
  if (peer.gone()) return;
  peer.left = true;
  peer.status = Status::rank_failure(fmt::format("the process ({}) has left in good order", describe_peer(index)), -1,
                                     peer.address.host, peer.address.pid);
  for (auto& [id, group] : groups_)
    if (const int rank = group.rank_of(index); rank >= 0) member_gone(id, group, rank);
  peer.bundle.abandon(peer.status, deferred_);
  forget_closed();
}

// --- asking --------------------------------------------------------------------------------------

bool Messenger::is_gone(const Membership& membership, int rank) const {
  const auto r = static_cast<std::size_t>(rank);
  const int peer = membership.members[r];
  return peer >= 0 && (membership.departures[r].left || peers_[peer].gone());
}

bool Messenger::has_left(std::uint64_t id, int peer) {
  const GroupState* const group = find(id);
  const int rank = group == nullptr ? -1 : group->rank_of(peer);
  return rank >= 0 && is_gone(*group, rank);
}

/// Of a group that is closed here: nothing more comes of it.
bool Messenger::all_gone(const Membership& membership) const {
  for (int r = 0; r < membership.size(); r++) {
    const Membership::Departure& departure = membership.departures[static_cast<std::size_t>(r)];
    const int peer = membership.members[static_cast<std::size_t>(r)];
    if (peer >= 0 && !peers_[peer].gone() && (!departure.over || departure.owed > 0)) return false;
  }
  return true;
}

void Messenger::forget_closed() {
  std::erase_if(closed_groups_, [&](const auto& closed) { return all_gone(closed.second); });
}

std::vector<bool> Messenger::gone_locked(const Membership& membership) const {
  std::vector<bool> gone;
  for (int r = 0; r < membership.size(); r++) gone.push_back(is_gone(membership, r));
  return gone;
}

std::vector<bool> Messenger::gone(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto it = groups_.find(id);
  return it == groups_.end() ? std::vector<bool>{} : gone_locked(it->second);
}

Status Messenger::departure(std::uint64_t id, std::span<const int> ranks) const {
  const std::lock_guard lock(mutex_);
  const auto it = groups_.find(id);
  if (it == groups_.end()) return {};
  const GroupState& group = it->second;
  for (const int rank : ranks)
    if (is_gone(group, rank)) return gone_status(group, rank, kTakingPart);
  return {};
}

Status Messenger::all_departed(std::uint64_t id, std::span<const int> ranks) const {
  const std::lock_guard lock(mutex_);
  const auto it = groups_.find(id);
  if (it == groups_.end() || ranks.empty()) return {};
  const GroupState& group = it->second;
  if (!std::ranges::all_of(ranks, [&](int rank) { return is_gone(group, rank); })) return {};
  return gone_status(group, ranks.front(), fmt::format("sending the message that rank {} waits for", group.rank));
}

Status Messenger::departure_before(std::uint64_t id, std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  const auto it = groups_.find(id);
  if (it == groups_.end()) return {};
  const GroupState& group = it->second;
  int first = -1;  // others may have left because it had
  for (int rank = 0; rank < group.size(); rank++) {
    const Membership::Departure& departure = group.departures[static_cast<std::size_t>(rank)];
    if (!departure.left || departure.collectives >= sequence) continue;
    sequence = departure.collectives;
    first = rank;
  }
  return first < 0 ? Status{} : gone_status(group, first, kTakingPart);
}

Status Messenger::gone_status(const GroupState& group, int rank, std::string_view lacking) const {
  const int peer = group.members[static_cast<std::size_t>(rank)];
  const PeerAddress& a = peers_[peer].address;
  const std::string who = fmt::format("rank {} of group \"{}\" ({})", rank, group.name, describe_peer(peer));
  if (const Status death = recent_death_locked(); !death.ok() && death.pid() != a.pid)
    return death.with_message(fmt::format("{} has left without {}, after another process of the job died: {}", who,
                                          lacking, death.message()));
  const bool destroyed = group.departures[static_cast<std::size_t>(rank)].left;
  return Status::rank_failure(fmt::format("{} has left: {}, without {}. Look at what it printed", who,
                                          destroyed ? "it has destroyed the group, as a program that ends does, too"
                                                    : "its process finished, or raised and ended",
                                          lacking),
                              rank, a.host, a.pid);
}

Status Messenger::recent_death_locked() const {
  if (death_.ok() || clock_.now() - death_at_ > std::chrono::seconds(30)) return {};
  return death_;
}

}  // namespace unisono::engine
