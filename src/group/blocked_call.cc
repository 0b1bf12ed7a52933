#include "group/blocked_call.h"

#include <fmt/format.h>

#include "group/baton.h"

namespace unisono::detail {

namespace {
CollectiveAhead ahead_of(const Call& call, std::uint64_t sequence) {
  return {call.collective, sequence, call.count, root_of(call), !call.counts.empty() || !call.output_counts.empty()};
}

/// Whether a rank whose call has not ended needs rank `other` to make it: by what the collective
/// means, whatever runs it.
bool needs(const CollectiveAhead& call, int rank, int size, int other) {
  if (size == 2) return true;  // there is nobody else to wait for
  if (call.collective == Collective::barrier) return true;
  if (call.uneven || call.count == 0) return false;  // blocks may be empty
  switch (call.collective) {
    case Collective::reduce:
    case Collective::gather:
      return rank == call.root;
    case Collective::broadcast:
    case Collective::scatter:
      return other == call.root;
    default:
      return true;
  }
}
}  // namespace

std::string GroupImpl::BlockedCall::in_words(const std::string& call) const {
  const Parts& parts = group_.parts();
  const Member& me = parts.members[static_cast<std::size_t>(group_.rank())];
  return fmt::format("rank {} (host {}, pid {}) waits in {} on group \"{}\"", group_.rank(), me.host, me.pid, call,
                     parts.name);
}

std::vector<int> GroupImpl::BlockedInMessage::peers() {
  if (what_.verb != "recv" || what_.peer < 0) return {};
  const int peer = group_.parts_.members[static_cast<std::size_t>(what_.peer)].peer;
  if (peer < 0 || !group_.parts_.context->messenger->awaits(group_.parts_.id, completion_.get())) return {};
  return {peer};
}

std::string GroupImpl::BlockedInMessage::describe() const {
  return in_words(what_.message ? fmt::format("{}({}={}, tag={})", what_.verb, what_.verb == "send" ? "dst" : "src",
                                              what_.peer, what_.tag)
                                : std::string(what_.verb));
}

void GroupImpl::BlockedInMessage::end(const Status& status) {
  group_.parts_.context->messenger->withdraw_receive(group_.parts_.id, completion_, status);
}

std::vector<int> GroupImpl::BlockedInCollective::peers() { return group_.lacking(ahead_of(call_, sequence_)); }

std::string GroupImpl::BlockedInCollective::describe() const {
  return in_words(fmt::format("{} #{}", name_of(call_.collective), sequence_));
}

std::vector<int> GroupImpl::BlockedInQueue::peers() {
  const Baton baton(group_.baton_);
  if (!baton.held()) return {};
  {
    const std::lock_guard lock(group_.queue_mutex_);
    if (group_.queue_.empty()) return {};
    const Pending& front = *group_.queue_.front();
    ahead_ = ahead_of(front.call, front.operation == nullptr ? 0 : front.sequence);
  }
  return group_.lacking(ahead_);
}

std::string GroupImpl::BlockedInQueue::describe() const {
  return in_words(fmt::format("{} #{}", name_of(ahead_.collective), ahead_.sequence));
}

/// The peers that `call` needs and that have not begun it, as far as is known here. Under the
/// baton.
std::vector<int> GroupImpl::lacking(const CollectiveAhead& call) const {
  std::vector<int> peers;
  if (call.sequence == 0) return peers;
  const engine::HowFar far = how_far();
  for (int step = 1; step < size(); step++) {
    const int q = (rank() + step) % size();
    const auto at = static_cast<std::size_t>(q);
    if (!needs(call, rank(), size(), q) || (at < far.begun.size() && far.begun[at] >= call.sequence)) continue;
    peers.push_back(parts_.members[at].peer);
  }
  return peers;
}

bool GroupImpl::lasts(const Options& options) const {
  return options.timeout.value_or(default_timeout()) >= default_timeout();
}

}  // namespace unisono::detail
