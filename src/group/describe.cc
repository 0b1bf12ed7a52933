/// What a group says of its operations when something is wrong.

#include <fmt/format.h>
#include <fmt/ranges.h>

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
  return fmt::format("{} of {} bytes {} {}, tag {}, group \"{}\"", what.verb, what.bytes,
                     what.verb == "send" ? "to" : "from", whom, what.tag, parts_.name);
}

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

Status GroupImpl::late(std::uint64_t sequence, const std::vector<int>& missing) const {
  std::vector<std::string> names;
  for (const int q : missing)
    names.push_back(fmt::format("{} (host {}, pid {})", q, parts_.members[q].host, parts_.members[q].pid));
  return Status::timeout(
      fmt::format("operation #{} of group \"{}\" timed out on rank {}: it waits for rank{} {}. They have not called "
                  "it, or are stuck: "
                  "look at their stacks, or set a longer timeout (UNISONO_TIMEOUT)",
                  sequence, parts_.name, rank(), missing.size() == 1 ? "" : "s", fmt::join(names, ", ")),
      missing);
}

}  // namespace unisono::detail
