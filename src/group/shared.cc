/// Collectives on buffers that lie in shared memory.

#include <fmt/format.h>

#include "base/within.h"
#include "group/group_impl.h"

namespace unisono::detail {

namespace {
/// Among so many ranks a joint plan shares what would not need to be (plan/ir.h).
constexpr int kHelpPays = 4;
}  // namespace

/// The shared plans that run instead if all ranks' buffers allow it. Every rank comes to the same ones: they depend on the
/// call and the table alone; whose buffers lie where is found out by the operation.
GroupImpl::SharedAlgorithms GroupImpl::shared_algorithms(const Pending& p) const {
  const auto if_shared = [](const plan::Algorithm* algorithm) {
    return plan::needs_shared_buffers(algorithm->place) ? algorithm : nullptr;
  };
  if (p.requested != nullptr) return {if_shared(p.requested)};
  plan::Question q = question(p.call);
  if (!q.one_host || q.bytes < shared_from_[static_cast<std::size_t>(q.collective)]) return {};
  q.shared_buffers = true;
  const plan::Algorithm* shared = if_shared(parts_.selector.choose(q));
  q.shared_outputs = true;
  const plan::Algorithm* preferred = if_shared(parts_.selector.choose(q));
  if (preferred == nullptr || preferred->place != plan::Place::shared_outputs) return {shared};
  return shared == nullptr ? SharedAlgorithms{preferred} : SharedAlgorithms{shared, preferred};
}

/// An algorithm that was asked for by name is not replaced by another one.
void GroupImpl::refuse_private_buffers(const Pending& p, const plan::Plan& plan, const engine::Binding& binding) const {
  const auto check = [&](std::uint8_t bit, const void* data, std::int64_t bytes, const char* what) {
    if ((plan.exposed[static_cast<std::size_t>(rank())] & bit) == 0 || bytes == 0) return;
    if (parts_.domain->find(data, static_cast<std::uint64_t>(bytes)).offset != 0) return;
    throw InvalidArgument(fmt::format(
        "algorithm {} of {} needs {} on rank {} to come from Group::allocate, or to be registered. Nothing was sent",
        p.requested->name, name_of(p.call.collective), what, rank()));
  };
  check(plan::kExposesIn, p.call.input, binding.in.total(), "the input");
  check(plan::kExposesOut, p.call.output, binding.out.total(), "the output");
}

/// Memory that is large, would be reached by peers, and comes back is shared by itself. An operation that has no time to lose does not do that.
void GroupImpl::adopt_buffers(const Pending& p) const {
  const engine::Bound& shared = p.known->prepared->shared;
  if (!shared || p.call.options.timeout.value_or(default_timeout()) < std::chrono::seconds(10)) return;
  ContextImpl& c = *parts_.context;
  const std::uint8_t exposed = shared.plan().exposed[static_cast<std::size_t>(rank())];
  // Who would be helped. With more ranks their helper does too small a part.
  const bool helped = shared.plan().joint && rank() != p.call.root && size() <= kHelpPays;
  const auto in_bytes = static_cast<std::size_t>(shared.binding.in.total());
  const auto out_bytes = static_cast<std::size_t>(shared.binding.out.total());
  const auto* const in = static_cast<const std::byte*>(p.call.input);
  const auto* const out = static_cast<const std::byte*>(p.call.output);
  const bool opens_in = (exposed & plan::kExposesIn) != 0 || (helped && in_bytes > 0);
  const bool opens_out = (exposed & plan::kExposesOut) != 0 || (helped && out_bytes > 0);
  // In place one is a part of the other, and the whole is this operation's.
  const bool around_in = within(in, in_bytes, out, out_bytes), around_out = within(out, out_bytes, in, in_bytes);
  if (around_in ? opens_in || opens_out : opens_out && !around_out) c.adopter->begin(c, out, out_bytes);
  if (!around_in && (opens_in || (around_out && opens_out))) c.adopter->begin(c, in, in_bytes);
}

/// After a failure: whether the caller may have its buffers back. Peers notice within a piece of a step, so this waits for
/// them; one that is stopped must not hold the caller up for ever, and what it may still write to is then not used for others.
bool GroupImpl::let_go(Pending& p) {
  ContextImpl& c = *parts_.context;
  if (p.operation == nullptr || p.operation->let_go(c.messenger->gone(parts_.id))) return true;
  const TimePoint now = c.clock.now();
  if (p.patience == TimePoint::max()) p.patience = saturating_add(now, std::chrono::seconds(1));
  if (now < p.patience) return false;
  const bool opened = p.known != nullptr && p.known->prepared->shared;
  c.log.warn(fmt::format("{} failed, but not all ranks have noticed within a second: {}", describe(p),
                         opened ? "its shared buffers lie on other pages from now on, which they cannot write to, and "
                                  "are not shared any more"
                                : "they may still read its buffers"));
  if (!opened) return true;
  const engine::Binding& binding = p.known->prepared->shared.binding;
  for (const auto& [data, bytes] : {std::pair{p.call.input, binding.in.total()},
                                    std::pair{static_cast<const void*>(p.call.output), binding.out.total()}})
    for (auto& memory : c.take_over(data, static_cast<std::size_t>(bytes)))
      parts_.domain->keep(std::move(memory), p.sequence);
  return true;
}

}  // namespace unisono::detail
