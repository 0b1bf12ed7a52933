/// Small operations of a group whose members share memory, and nothing queued: no lock, no queue, no allocation.

#include <fmt/format.h>

#include "engine/inline_operation.h"
#include "group/blocked_call.h"
#include "group/group_impl.h"

namespace unisono::detail {

std::optional<engine::InlineCall> GroupImpl::inline_call(const Call& call, const plan::Algorithm* requested) const {
  // Every rank must come to the same answer, so it depends on nothing but the call and what the group agreed on.
  if (!one_host_ || requested != nullptr || !call.counts.empty() || !call.output_counts.empty()) return std::nullopt;
  if (overridden_[static_cast<std::size_t>(call.collective)]) return std::nullopt;
  const engine::InlineCall tiny{call.collective,
                                static_cast<const std::byte*>(call.input),
                                static_cast<std::byte*>(call.output),
                                call.count,
                                call.dtype,
                                call.op,
                                call.root};
  return tiny.fits(size()) ? std::optional(tiny) : std::nullopt;
}

bool GroupImpl::run_tiny(const Call& call) {
  if (!call.options.algorithm.empty() || parts_.failure->departed()) return false;
  const auto tiny = inline_call(call, nullptr);
  if (!tiny) return false;
  if (queued_.load(std::memory_order_acquire) != 0 || baton_.exchange(true, std::memory_order_acquire)) return false;
  if (queued_.load(std::memory_order_acquire) != 0) {  // somebody was faster: take a place behind it
    baton_.store(false, std::memory_order_release);
    return false;
  }
  const std::uint64_t sequence = sequence_.load(std::memory_order_relaxed) + 1;
  sequence_.store(sequence, std::memory_order_relaxed);
  engine::InlineOperation operation(*tiny, *parts_.domain, signature_of(call, nullptr), sequence);
  for (int i = parts_.context->progress->short_wait(); i > 0 && !operation.done(); i--) operation.advance();
  Status status = operation.done() ? settle(operation) : wait_tiny(call, operation);
  ran_.store(status.ok() ? &kInline : nullptr, std::memory_order_relaxed);
  if (first_runs_ != nullptr && status.ok()) [[unlikely]]
    tell_run(call, nullptr, nullptr);
  hand_on_baton();
  throw_status(status);
  return true;
}

/// The peers are not there yet: wait as everybody waits. Holds the baton.
Status GroupImpl::wait_tiny(const Call& call, engine::Running& operation) {
  const MarkedThread marked(holder_);
  const TimePoint started = parts_.context->clock.now();
  const TimePoint deadline = saturating_add(started, call.options.timeout.value_or(default_timeout()));
  const auto over = [&] {
    operation.advance();
    if (operation.done() || parts_.failure->failed()) return true;
    if (lacks_a_rank(operation.sequence())) return true;
    if (parts_.failure->departed())
      if (const Status gone = parts_.context->messenger->departure(parts_.id, operation.waiting_for()); !gone.ok()) {
        operation.advance();  // it may have posted its part before it left
        if (!operation.done()) fail(gone);
        return true;
      }
    return false;
  };
  const std::uint64_t sequence = operation.sequence();
  BlockedInCollective blocked(*this, call, sequence);
  engine::WaitCycles::Search search(*parts_.context->cycles, blocked, started);
  const auto outcome = parts_.context->progress->wait(nullptr, deadline, call.options.interrupted, over, true, &search);
  if (outcome == group::Progress::Outcome::interrupted) {
    if (!operation.done()) fail(interruption(name_of(call.collective)));
  } else if (outcome == group::Progress::Outcome::deadline) {
    fail(late(operation.sequence(), operation.waiting_for(), true));
  }
  Status status = settle(operation);
  return status.ok() || operation.done()
             ? status
             : search.explain(
                   annotate(parts_.failure->status(), describe_call(call, operation.sequence(), ""), started));
}

/// The outcome of an operation that is done, or that the group's failure has ended.
Status GroupImpl::settle(engine::Running& operation) {
  if (operation.done() && operation.status().ok()) return {};
  if (const engine::Discord& d = operation.discord(); d.rank >= 0)
    fail(mismatch(d.sequence, d.rank, d.ours, d.theirs));
  else if (operation.done())
    fail(operation.status());
  return parts_.failure->status();  // the first reason, which may be another's
}

}  // namespace unisono::detail
