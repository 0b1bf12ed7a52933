/// What a group says of its operations when something is wrong.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "group/group_impl.h"

namespace unisono::detail {

std::string GroupImpl::describe_call(const Call& call, std::uint64_t sequence, std::string_view algorithm) const {
  return fmt::format("{} #{} of group \"{}\"{}", signature_of(call, nullptr).describe(), sequence, parts_.name,
                     algorithm.empty() ? "" : fmt::format(", algorithm {}", algorithm));
}

std::string GroupImpl::describe(const Pending& p) const {
  const std::string_view asked = p.algorithm != nullptr ? p.algorithm->name : "";
  return describe_call(p.call, p.sequence, p.operation != nullptr ? p.operation->algorithm() : asked);
}

std::string GroupImpl::describe(const Awaited& what) const {
  if (!what.message) return std::string(what.verb);
  const std::string whom = what.peer < 0 ? "any rank"
                                         : fmt::format("rank {} (host {}, pid {})", what.peer,
                                                       parts_.members[what.peer].host, parts_.members[what.peer].pid);
  return fmt::format("{} of {} bytes {} {}, {}, group \"{}\"", what.verb, what.bytes,
                     what.verb == "send" ? "to" : "from", whom, words_of_tag(what.tag), parts_.name);
}

std::string words_of_tag(std::int64_t tag) { return tag == kAnyTag ? "any tag" : fmt::format("tag {}", tag); }

Status GroupImpl::annotate(const Status& status, const std::string& what, TimePoint started) const {
  const Member& me = parts_.members[rank()];
  const std::string after =
      started == TimePoint{}
          ? ""
          : fmt::format(" after {:.3f} s",
                        std::chrono::duration<double>(parts_.context->clock.now() - started).count());
  return status.with_message(
      fmt::format("{} [{}; on rank {} of {} (host {}, pid {}){}; buffers of this operation may be half-written]",
                  status.message(), what, rank(), size(), me.host, me.pid, after));
}

/// Messages that are under way when the group fails end with its failure, which says nothing of them. (A collective's says what it was.)
Status GroupImpl::named(const Status& status, const Awaited& what, TimePoint started) const {
  const bool the_groups = !status.ok() && what.message && parts_.failure->failed() &&
                          status.message() == parts_.failure->status().message();
  return the_groups ? annotate(status, describe(what), started) : status;
}

Status GroupImpl::mismatch(std::uint64_t sequence, int other, const engine::Signature& ours,
                           const engine::Signature& theirs) const {
  return Status::mismatch(fmt::format("operation #{} of group \"{}\" does not match: rank {} called {}, but rank {} "
                                      "called {}. All ranks must call the same "
                                      "collectives in the same order with equal arguments",
                                      sequence, parts_.name, rank(), ours.describe(), other, theirs.describe()),
                          rank(), other);
}

engine::HowFar GroupImpl::how_far() const {
  if (parts_.domain == nullptr) return parts_.context->messenger->how_far(parts_.id);
  engine::HowFar far;
  for (int q = 0; q < size(); q++) far.begun.push_back(parts_.domain->latest(q));
  far.waits_in = far.begun;
  return far;
}

std::vector<int> GroupImpl::least_far(std::uint64_t sequence, const engine::HowFar& far) const {
  std::vector<int> behind;
  std::uint64_t least = sequence;
  for (int q = 0; q < static_cast<int>(far.begun.size()); q++) {
    if (q == rank() || far.begun[q] >= sequence) continue;
    least = std::min(least, far.begun[q]);
    behind.push_back(q);
  }
  // Who waits in a call waits as we do, for those who have come less far.
  std::erase_if(behind, [&](int q) { return far.waits_in[q] > least; });
  return behind;
}

std::string GroupImpl::names_of(const std::vector<int>& ranks) const {
  std::vector<std::string> names;
  for (const int q : ranks)
    names.push_back(fmt::format("{} (host {}, pid {})", q, parts_.members[q].host, parts_.members[q].pid));
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(names, ", "));
}

Status GroupImpl::late(std::uint64_t sequence, const std::vector<int>& waiting, bool known) const {
  const std::string what =
      fmt::format("operation #{} of group \"{}\" timed out on rank {}: ", sequence, parts_.name, rank());
  const engine::HowFar far = known ? how_far() : engine::HowFar{};
  const std::vector<int> behind = least_far(sequence, far);
  if (behind.empty())
    return Status::timeout(
        fmt::format(
            "{}it waits for {}, which {}. Look at their stacks, or set a longer timeout (UNISONO_TIMEOUT)", what,
            names_of(waiting),
            far.begun.empty() ? "have not called it, or are stuck" : "have called it, and are slow, stopped or stuck"),
        waiting);
  std::vector<std::string> last;
  for (const int q : behind) last.push_back(newest_call(q, far.begun[q]));
  return Status::timeout(
      fmt::format("{}{}. All others wait for that. Look at the stack there, or set a longer timeout (UNISONO_TIMEOUT)",
                  what, fmt::join(last, "; ")),
      behind);
}

std::string GroupImpl::newest_call(int q, std::uint64_t sequence) const {
  const std::string whom = names_of({q});
  if (sequence == 0) return whom + " has called nothing on this group yet";
  // All have called the same, or there was a Mismatch: so our own call says what it was.
  std::string what;
  if (parts_.domain == nullptr) {
    if (const auto said = parts_.context->messenger->past(parts_.id, sequence)) what = said->describe();
  } else if (parts_.domain->latest(rank()) <= sequence + 1) {
    what = parts_.domain->said(rank(), sequence).describe();
  }
  return fmt::format("{} has called nothing on this group since #{}{}", whom, sequence,
                     what.empty() ? "" : fmt::format(" ({})", what));
}

}  // namespace unisono::detail
