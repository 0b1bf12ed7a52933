/// Groups: matching, failures, and how the news of them spreads.

#include <fmt/format.h>

#include <algorithm>

#include "engine/messenger.h"

namespace unisono::engine {

using transport::MutablePart;

Messenger::GroupState* Messenger::find(std::uint64_t id) {
  if (found_ != nullptr && found_->first == id) return &found_->second;
  const auto it = groups_.find(id);
  if (it == groups_.end()) return nullptr;
  found_ = &*it;
  return &it->second;
}

void Messenger::open_group(std::uint64_t id, std::string name, int rank, std::vector<int> members,
                           std::shared_ptr<Failure> failure) {
  const std::lock_guard lock(mutex_);
  GroupState& group = groups_[id];
  group.name = std::move(name);
  group.inbox = Inbox(static_cast<int>(members.size()));
  static_cast<Membership&>(group) = Membership(rank, std::move(members));
  group.failure = std::move(failure);
  if (const auto closed = closed_groups_.find(id); closed != closed_groups_.end()) {
    for (std::size_t r = 0; r < std::min(group.departures.size(), closed->second.departures.size()); r++) {
      const Membership::Departure& before = closed->second.departures[r];
      if (static_cast<int>(r) != rank) group.departures[r].owed = before.owed + (before.over ? 0 : 1);
    }
    closed_groups_.erase(closed);
  }
  if (const auto early = early_aborts_.find(id); early != early_aborts_.end()) {
    group.failure->set(early->second);
    early_aborts_.erase(early);
  }
  for (std::size_t r = 0; r < group.members.size(); r++) {
    const int peer = group.members[r];
    if (peer >= 0 && peers_[peer].dead) {
      const PeerAddress& a = peers_[peer].address;
      group.failure->set(
          Status::rank_failure(fmt::format("rank {} of group \"{}\" ({}) has died", r, group.name, describe_peer(peer)),
                               static_cast<int>(r), a.host, a.pid));
    } else if (peer >= 0 && peers_[peer].left) {
      group.failure->note_departure();
    }
  }
  if (const auto early = early_leaves_.extract(id))
    for (const EarlyLeave& leave : early.mapped()) on_leave(leave.from, leave.header, leave.told);
}

void Messenger::begin(std::uint64_t id, std::uint64_t sequence, const Signature& signature) {
  const std::lock_guard lock(mutex_);
  GroupState* group = find(id);
  if (group == nullptr) return;
  if (auto discord = group->inbox.begin(sequence, signature)) report_discord(id, *group, *discord);
}

void Messenger::end(std::uint64_t id, std::uint64_t sequence) {
  const std::lock_guard lock(mutex_);
  if (GroupState* group = find(id)) group->inbox.end(sequence);
}

void Messenger::probe(std::uint64_t id, std::uint64_t sequence, const Signature& signature) {
  const std::lock_guard lock(mutex_);
  GroupState* group = find(id);
  if (group == nullptr) return;
  group->inbox.note_begun(group->rank, sequence);
  group->inbox.take_news();
  const auto known = std::as_bytes(std::span(group->inbox.begun()));
  for (const int peer : group->members) {
    if (peer < 0 || peers_[peer].gone() || peers_[peer].bundle.empty()) continue;
    OutFrame frame;
    frame.header.kind = FrameKind::probe;
    frame.header.group = id;
    frame.header.sequence = sequence;
    frame.header.signature = signature;
    frame.header.length = known.size();
    frame.owned.assign(known.begin(), known.end());
    frame.parts = {transport::ConstPart(frame.owned)};
    enqueue(peer, std::move(frame));
  }
}

bool Messenger::heard_news(std::uint64_t id) {
  const std::lock_guard lock(mutex_);
  GroupState* group = find(id);
  return group != nullptr && group->inbox.take_news();
}

HowFar Messenger::how_far(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto it = groups_.find(id);
  return it == groups_.end() ? HowFar{} : it->second.inbox.how_far();
}

std::optional<Signature> Messenger::past(std::uint64_t id, std::uint64_t sequence) const {
  const std::lock_guard lock(mutex_);
  const auto it = groups_.find(id);
  return it == groups_.end() ? std::nullopt : it->second.inbox.past(sequence);
}

void Messenger::receive(std::uint64_t id, int rank, const FrameHeader& header, Sink&& into) {
  const std::lock_guard lock(mutex_);
  GroupState* group = find(id);
  if (group == nullptr) return;
  if (auto discord = group->inbox.post(rank, header, std::move(into))) report_discord(id, *group, *discord);
}

std::shared_ptr<Completion> Messenger::receive_message(std::uint64_t id, int rank, std::int64_t tag, MutablePart buffer,
                                                       const std::shared_ptr<UnderWay>& counted) {
  auto completion = std::make_shared<Completion>(counted);
  Completion::Callbacks callbacks;
  {
    const std::lock_guard lock(mutex_);
    GroupState* group = find(id);
    if (group == nullptr || group->failure->failed()) {
      callbacks = completion->complete(group ? group->failure->status()
                                             : Status::invalid("recv on a group that was destroyed"));
    } else {
      group->inbox.post_message(rank, tag, buffer, completion, deferred_);
      for (int r = 0; r < group->size(); r++)
        if (is_gone(*group, r))
          group->inbox.fail_messages(
              gone_locked(*group), r,
              gone_status(*group, r, fmt::format("sending the message that rank {} waits for", group->rank)),
              deferred_);
      callbacks = deferred_.take();
    }
  }
  run(callbacks);
  return completion;
}

std::optional<Arrival> Messenger::first_message(std::uint64_t id, int rank, std::int64_t tag) const {
  const std::lock_guard lock(mutex_);
  const auto it = groups_.find(id);
  return it == groups_.end() ? std::nullopt : it->second.inbox.first_message(rank, tag);
}

bool Messenger::has_receive(std::uint64_t id, int rank, std::int64_t tag) const {
  const std::lock_guard lock(mutex_);
  const auto it = groups_.find(id);
  return it != groups_.end() && it->second.inbox.has_receive(rank, tag);
}

void Messenger::cancel(std::uint64_t id, const std::shared_ptr<Completion>& completion, const Status& status) {
  Completion::Callbacks callbacks;
  {
    const std::lock_guard lock(mutex_);
    GroupState* group = find(id);
    if (group == nullptr) return;
    group->inbox.forget(completion.get(), status, deferred_);
    for (const int peer : group->members)
      if (peer >= 0) peers_[peer].bundle.forget(id, completion.get(), status, deferred_);
    forget_handovers(id, completion.get(), status, true);
    callbacks = deferred_.take();
  }
  run(callbacks);
}

bool Messenger::withdraw_receive(std::uint64_t id, const std::shared_ptr<Completion>& completion,
                                 const Status& status) {
  Completion::Callbacks callbacks;
  {
    const std::lock_guard lock(mutex_);
    GroupState* group = find(id);
    if (group == nullptr || !group->inbox.withdraw(completion.get(), status, deferred_)) return false;
    callbacks = deferred_.take();
  }
  run(callbacks);
  return true;
}

void Messenger::send_wait(int peer, std::span<const std::byte> notice) {
  Completion::Callbacks callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (peers_[peer].gone()) return;
    OutFrame frame;
    frame.header.kind = FrameKind::wait;
    frame.header.length = notice.size();
    frame.owned.assign(notice.begin(), notice.end());
    frame.parts = {transport::ConstPart(frame.owned)};
    enqueue(peer, std::move(frame));
    callbacks = deferred_.take();
  }
  run(callbacks);
}

void Messenger::hear_waits(std::function<void(int, std::span<const std::byte>)> hear) {
  const std::lock_guard lock(mutex_);
  hear_wait_ = std::move(hear);
}

bool Messenger::awaits(std::uint64_t id, const Completion* receive) {
  const std::lock_guard lock(mutex_);
  const GroupState* group = find(id);
  return group != nullptr && group->inbox.is_posted(receive);
}

void Messenger::forget(std::uint64_t id, const Status& status) {
  Completion::Callbacks callbacks;
  {
    const std::lock_guard lock(mutex_);
    GroupState* group = find(id);
    if (group == nullptr) return;
    group->inbox.forget(nullptr, status, deferred_);
    for (const int peer : group->members)
      if (peer >= 0) peers_[peer].bundle.forget(id, nullptr, status, deferred_);
    forget_handovers(id, nullptr, status, false);
    callbacks = deferred_.take();
  }
  run(callbacks);
}

// --- failures ----------------------------------------------------------------------------------------------------

void Messenger::fail_group(std::uint64_t id, const Status& status, bool flood) {
  Completion::Callbacks callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (GroupState* group = find(id)) fail_group_locked(id, *group, status, flood);
    callbacks = deferred_.take();
  }
  run(callbacks);
}

void Messenger::fail_group_locked(std::uint64_t id, GroupState& group, const Status& status, bool flood_it) {
  if (!group.failure->set(status)) return;
  log_.debug(fmt::format("group \"{}\" failed: {}", group.name, status.message()));
  group.inbox.forget(nullptr, status, deferred_);
  for (const int peer : group.members)
    if (peer >= 0) peers_[peer].bundle.forget(id, nullptr, status, deferred_);
  if (flood_it) flood({id, std::nullopt, status}, group.members);
  forget_handovers(id, nullptr, status, false);
  poller_.wake();  // whoever sleeps in this process should look
}

void Messenger::report_discord(std::uint64_t id, GroupState& group, const Discord& d) {
  const std::string text =
      d.ours == d.theirs ? fmt::format(
                               "operation #{} of group \"{}\" does not match: rank {} and rank {} both called {}, but "
                               "a message between them has another size than "
                               "expected (counts that differ between ranks)",
                               d.sequence, group.name, group.rank, d.rank, d.ours.describe())
                         : fmt::format(
                               "operation #{} of group \"{}\" does not match: rank {} called {}, but rank {} called "
                               "{}. All ranks must call the same collectives "
                               "in the same order with equal arguments",
                               d.sequence, group.name, group.rank, d.ours.describe(), d.rank, d.theirs.describe());
  fail_group_locked(id, group, Status::mismatch(text, group.rank, d.rank), true);
}

void Messenger::flood(const AbortRecord& record, std::span<const int> peers) {
  const std::vector<std::byte> bytes = record.encode();
  for (const int index : peers) {
    if (index < 0 || peers_[index].gone() || peers_[index].bundle.empty()) continue;
    OutFrame frame;
    frame.header.kind = FrameKind::abort;
    frame.header.group = record.group;
    frame.header.length = bytes.size();
    frame.owned = bytes;
    frame.parts = {transport::ConstPart(frame.owned)};
    enqueue(index, std::move(frame));
  }
}

void Messenger::on_abort(int from, const AbortRecord& record) {
  if (record.dead) {
    if (*record.dead == self_) {
      log_.warn(fmt::format("{} believes that this process is dead", describe_peer(from)));
      return;
    }
    const int index = peer_locked(*record.dead);
    if (!peers_[index].gone()) {
      drain(index);
      if (!peers_[index].gone()) peer_died(index, record.status.message(), true);
    }
    return;
  }
  if (GroupState* group = find(record.group))
    fail_group_locked(record.group, *group, record.status, true);
  else if (!closed_groups_.contains(record.group))
    early_aborts_.try_emplace(record.group, record.status);
}

void Messenger::peer_died(int index, const std::string& how, bool flood_it) {
  Peer& peer = peers_[index];
  if (peer.dead) return;
  peer.dead = true;
  peer.left = false;
  peer.status = Status::rank_failure(how, -1, peer.address.host, peer.address.pid);
  if (death_.ok()) {
    death_ = peer.status.with_message(fmt::format("{}: {}", describe_peer(index), how));
    death_at_ = clock_.now();
  }
  if (flood_it) {
    std::vector<int> others;
    for (int i = 0; i < static_cast<int>(peers_.size()); i++)
      if (i != index) others.push_back(i);
    flood({0, peer.address.id, peer.status}, others);
  }
  for (auto& [id, group] : groups_) {
    const int rank = group.rank_of(index);
    if (rank < 0) continue;
    // Everybody hears of the death itself, so the group's failure need not be flooded, too.
    fail_group_locked(id, group,
                      Status::rank_failure(fmt::format("rank {} of group \"{}\" ({}) died: {}", rank, group.name,
                                                       describe_peer(index), how),
                                           rank, peer.address.host, peer.address.pid),
                      false);
  }
  peer.bundle.abandon(peer.status, deferred_);
  forget_closed();
}

}  // namespace unisono::engine
