/// The tiny path: the whole operand travels in the line that announces the operation. No plan, no queue, no lock.

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "group/group_impl.h"
#include "kernels/kernels.h"

namespace unisono::detail {

namespace {

struct Inline {
  std::int64_t block = 0;   ///< bytes of one rank's part
  std::int64_t posted = 0;  ///< bytes that a rank puts into its line
};

/// What of the call would travel in a line; the same answer on all ranks.
Inline inline_size(const Call& call, int size) {
  const std::int64_t block = call.count * static_cast<std::int64_t>(size_of(call.dtype));
  switch (call.collective) {
    case Collective::scatter:
    case Collective::reduce_scatter:
    case Collective::all_to_all: return {block, block * size};
    case Collective::barrier: return {};
    default: return {block, block};
  }
}

bool posts(const Call& call, int rank) {
  switch (call.collective) {
    case Collective::broadcast:
    case Collective::scatter: return rank == call.root;
    default: return true;
  }
}

/// All lines are there: combine or copy what this rank gets. `line[q]` is rank q's payload.
void take(const Call& call, int rank, int size, const Inline& what, std::span<const std::byte* const> line) {
  auto* out = static_cast<std::byte*>(call.output);
  const auto block = static_cast<std::size_t>(what.block);
  switch (call.collective) {
    case Collective::barrier: return;
    case Collective::broadcast:
      if (out != call.input || rank != call.root) std::memcpy(out, line[call.root], block);
      return;
    case Collective::scatter: std::memcpy(out, line[call.root] + block * rank, block); return;
    case Collective::all_gather:
    case Collective::gather:
      if (call.collective == Collective::gather && rank != call.root) return;
      for (int q = 0; q < size; q++) std::memcpy(out + block * q, line[q], block);
      return;
    case Collective::all_to_all:
      for (int q = 0; q < size; q++) std::memcpy(out + block * q, line[q] + block * rank, block);
      return;
    case Collective::reduce:
      if (rank != call.root) return;
      [[fallthrough]];
    case Collective::all_reduce:
    case Collective::reduce_scatter: {
      std::array<const void*, 64> few;
      std::vector<const void*> many;
      std::span<const void*> src(few.data(), std::min<std::size_t>(few.size(), size));
      if (static_cast<std::size_t>(size) > few.size()) {
        many.resize(size);
        src = many;
      }
      const std::size_t skip = call.collective == Collective::reduce_scatter ? block * rank : 0;
      for (int q = 0; q < size; q++) src[q] = line[q] + skip;  // rank order
      kernels::reduce({call.dtype, call.op, call.op == ReduceOp::avg ? size : 1}, out, nullptr, src, static_cast<std::size_t>(call.count));
      return;
    }
  }
}

}  // namespace

bool GroupImpl::run_tiny(const Call& call) {
  engine::Domain* domain = parts_.domain.get();
  if (domain == nullptr || !call.options.algorithm.empty() || !call.counts.empty()) return false;
  if (!parts_.overrides.empty() && parts_.overrides.find(name_of(call.collective)) != std::string::npos) return false;
  const Inline what = inline_size(call, size());
  if (what.posted > static_cast<std::int64_t>(engine::kInlineBytes)) return false;
  if (queued_.load(std::memory_order_acquire) != 0 || baton_.exchange(true, std::memory_order_acquire)) return false;
  if (queued_.load(std::memory_order_acquire) != 0) {
    baton_.store(false, std::memory_order_release);
    return false;
  }

  const int n = size(), me = rank();
  const std::uint64_t sequence = sequence_.load(std::memory_order_relaxed) + 1;
  const engine::Signature signature = signature_of(call, nullptr);
  bool announced = false;
  int next = 0, wrong = -1;  // ranks below `next` have arrived
  std::array<const std::byte*, 64> few;
  std::vector<const std::byte*> many;
  std::span<const std::byte*> line(few.data(), std::min<std::size_t>(few.size(), n));
  if (static_cast<std::size_t>(n) > few.size()) {
    many.resize(n);
    line = many;
  }
  const auto look = [&]() -> bool {
    if (!announced) {
      for (; next < n; next++)
        if (next != me && !domain->may_announce(next, sequence)) return false;
      const auto bytes = posts(call, me) ? static_cast<std::size_t>(what.posted) : 0;
      sequence_.store(sequence, std::memory_order_relaxed);
      domain->announce(sequence, signature, {static_cast<const std::byte*>(call.input), bytes});
      announced = true;
      next = 0;
    }
    for (; next < n; next++) {
      const engine::Line* l = domain->line(next, sequence);
      if (l == nullptr) return false;
      if (l->signature != signature) {
        wrong = next;
        return true;
      }
      line[next] = l->payload;
    }
    return true;
  };

  bool there = false;
  for (int i = 0; i < 64 && !there; i++) there = look();
  Status status;
  const TimePoint started = there ? TimePoint{} : parts_.context->clock.now();
  if (!there) {
    const TimePoint deadline = saturating_add(started, call.options.timeout.value_or(default_timeout()));
    std::uint32_t round = 0;
    const auto over = [&] {
      if (look()) return there = true;
      if (parts_.failure->failed()) return true;
      if (++round % 256 == 0) {
        std::vector<int> waiting;
        for (int q = 0; q < n; q++)
          if (q != me && domain->latest(q) < sequence) waiting.push_back(q);
        status = look_for_the_gone(waiting);
        if (!status.ok() && look()) {  // it posted its part before it left
          status = {};
          return there = true;
        }
      }
      return !status.ok();
    };
    const auto outcome = parts_.context->progress->wait(nullptr, deadline, call.options.interrupted, over);
    if (outcome == group::Progress::Outcome::interrupted)
      status = Status::aborted(fmt::format("rank {} was interrupted while it waited", me));
    else if (outcome == group::Progress::Outcome::deadline) {
      std::vector<int> missing;
      for (int q = 0; q < n; q++)
        if (q != me && domain->latest(q) < sequence) missing.push_back(q);
      status = late(sequence, missing);
    }
  }
  if (there && wrong >= 0) {
    status = mismatch(sequence, wrong, signature, domain->line(wrong, sequence)->signature);
    there = false;
  }
  if (there) {
    take(call, me, n, what, line);
  } else {
    if (!status.ok()) fail(status);  // the first reason wins, which may be another's
    status = annotate(parts_.failure->status(), describe_call(call, sequence, nullptr), started);
  }
  baton_.store(false, std::memory_order_release);
  throw_status(status);
  return true;
}

}  // namespace unisono::detail
