#include "group/first_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <exception>
#include <string>

#include "group/group_impl.h"

namespace unisono::group {

FirstRuns::News FirstRuns::note(const CallKind& kind, std::string_view algorithm) {
  auto& seen = seen_[kind];
  if (std::ranges::find(seen, algorithm) != seen.end()) return News::none;
  seen.push_back(algorithm);
  return seen.size() == 1 ? News::first : News::another;
}

}  // namespace unisono::group

namespace unisono::detail {

/// Of an operation that has ended well: which of its plans it was.
const plan::Algorithm& GroupImpl::ran(const Pending& p) const {
  const engine::Bound* const ran = &operation_->runs();
  const engine::Prepared& prepared = *p.known->prepared;
  if (ran == &prepared.shared) return *p.known->shared;
  if (ran == &prepared.preferred) return *p.known->preferred;
  if (ran == &prepared.rival) return *p.known->rival;
  return *p.known->algorithm;
}

/// Why `algorithm` ran, in words; `p` is empty for what travels with its announcement.
std::string GroupImpl::why(const Pending* p, const plan::Algorithm* algorithm) const {
  if (p == nullptr || algorithm == nullptr) return "so few bytes travel with the call's announcement";
  if (p->requested != nullptr) return "the call names it";
  const Known& known = *p->known;
  if (algorithm == known.shared || algorithm == known.preferred)
    return "what it needs of the ranks' buffers lies in shared memory";
  if (algorithm == known.rival)
    return fmt::format("it is measured beside {}, and the faster one runs", known.algorithm->name);
  std::string words = parts_.selector.explain(question(p->call)).reason;
  words = words.substr(0, words.find("; passed over"));  // `unisono plan --explain` says it all
  // Not all of those were measured: some follow from the cores that ranks share.
  const std::string_view tuned = name_of(plan::Origin::tuned);
  if (const auto at = words.find(tuned); at != std::string::npos)
    words.replace(at, tuned.size(), "rule for these hosts and cores");
  if (known.rival != nullptr)
    words += fmt::format("; {} is measured beside it, and the faster one runs", known.rival->name);
  if (known.shared != nullptr)
    words += fmt::format("; {} runs once the ranks' buffers lie in shared memory", known.shared->name);
  return words;
}

void GroupImpl::tell_run(const Call& call, const Pending* p, const plan::Algorithm* algorithm) noexcept try {
  using News = group::FirstRuns::News;
  const bool sums = reduces(call.collective), moves = call.collective != Collective::barrier;
  const std::int64_t bytes = collective_bytes(call, size());
  const std::string_view name = algorithm == nullptr ? kInline : algorithm->name;
  const News news =
      first_runs_->note({call.collective, moves ? call.dtype : DType::u8, sums ? call.op : ReduceOp::sum,
                         static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes))), !even(call)},
                        name);
  if (news == News::none) return;
  std::string what(name_of(call.collective));
  if (moves) what += fmt::format(" of {} bytes, {}", plan::format_size(bytes), name_of(call.dtype));
  if (sums) what += fmt::format(" {}", name_of(call.op));
  parts_.context->log.info(fmt::format("group \"{}\" ({} over {}): {}: {}algorithm {} ({})", parts_.name, size(),
                                       parts_.transport, what, news == News::first ? "" : "now ", name,
                                       why(p, algorithm)));
} catch (const std::exception&) {  // no memory for a line of the log: the call goes on without it
}

}  // namespace unisono::detail
