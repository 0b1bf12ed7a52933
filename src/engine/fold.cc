#include "engine/fold.h"

#include <algorithm>
#include <optional>

#include "base/caches.h"
#include "engine/operands.h"
#include "plan/layout.h"

namespace unisono::engine {

using plan::OpCode;
using plan::Plan;
using plan::Ref;
using plan::Space;
using plan::Step;

std::size_t Fold::piece_bytes() noexcept {
  constexpr std::size_t kLeastPiece = 64 << 10, kMostPiece = 256 << 10;
  return std::clamp(second_cache_bytes() / 8 / kLeastPiece * kLeastPiece, kLeastPiece, kMostPiece);
}

Fold Fold::from(std::size_t at) const {
  Fold rest = *this;
  for (std::byte*& result : rest.results) result += at;
  for (const std::byte*& operand : rest.operands)
    if (operand != nullptr) operand += at;
  return rest;
}

void Fold::add(std::size_t at, std::span<const std::byte> arrived) const noexcept {
  Operands memory(results.size() + operands.size());
  std::size_t k = 0;
  for (std::byte* const result : results) memory.all()[k++] = result + at;
  for (const std::byte* const operand : operands)  // the kernel only reads them
    memory.all()[k++] = const_cast<std::byte*>(operand != nullptr ? operand + at : arrived.data());
  const auto sources = memory.all().subspan(results.size());
  kernels::reduce(what, memory.all().first(results.size()),
                  std::span<const void* const>(sources.data(), sources.size()), arrived.size() / size_of(what.dtype));
}

namespace {

bool contains(const Ref& ref, std::int32_t block) { return ref.first <= block && block < ref.first + ref.count; }

/// What two steps of one plan may have in common. Input and output are one where a caller may pass one buffer for both.
class Overlaps {
 public:
  explicit Overlaps(const Plan& plan) : plan_(plan), aliased_(plan::aliased_blocks(plan)) {}

  /// Whether one of the two writes what the other one reads or writes.
  bool conflict(const Step& a, const Step& b) const {
    return any(plan_.dst(a), plan_.dst(b)) || any(plan_.dst(a), plan_.src(b)) || any(plan_.src(a), plan_.dst(b));
  }

 private:
  bool any(std::span<const Ref> these, std::span<const Ref> those) const {
    return std::ranges::any_of(
        these, [&](const Ref& a) { return std::ranges::any_of(those, [&](const Ref& b) { return meet(a, b); }); });
  }
  bool meet(const Ref& a, const Ref& b) const {
    if (a.space == Space::out && b.space == Space::in) return meet(b, a);
    if (plan::overlap(a, b)) return true;
    return a.space == Space::in && b.space == Space::out && std::ranges::any_of(aliased_, [&](const auto& pair) {
             return contains(a, pair.in) && contains(b, pair.out);
           });
  }

  const Plan& plan_;
  std::vector<plan::AliasedBlocks> aliased_;
};

bool has(std::span<const Ref> refs, const Ref& ref) { return std::ranges::find(refs, ref) != refs.end(); }

/// One block of the rank's own buffers and scratch, everywhere.
bool is_plain(const Plan& plan, const Step& step) {
  const auto plain = [](const Ref& ref) { return ref.count == 1 && !has_owner(ref.space); };
  return std::ranges::all_of(plan.dst(step), plain) && std::ranges::all_of(plan.src(step), plain);
}

/// The recv which brings one of the reduce's operands, and nothing else, to scratch, where no other operand comes in a message: nobody knows which of
/// several is the last, and the others would have to wait for it.
std::optional<std::uint32_t> recv_of(const Plan& plan, std::uint32_t reduce) {
  std::optional<std::uint32_t> found;
  const auto sources = plan.src(plan.steps[reduce]);
  std::vector<bool> written(sources.size());  // by a step that is nearer to the reduce
  std::size_t unknown = sources.size();
  for (std::uint32_t r = reduce; r-- > 0 && unknown > 0;) {
    const Step& step = plan.steps[r];
    for (std::size_t k = 0; k < sources.size(); k++) {
      const bool writes = std::ranges::any_of(plan.dst(step), [&](const Ref& to) {
        return to.space == sources[k].space && contains(to, sources[k].first);
      });
      if (!writes || written[k]) continue;
      written[k] = true;
      unknown--;
      if (step.op != OpCode::recv) continue;
      if (found || step.dst_count != 1 || plan.dst(step)[0] != sources[k] || sources[k].space != Space::scratch)
        return std::nullopt;
      found = r;
    }
  }
  return found;
}

/// Whether nobody but the reduce looks for what recv `r` brings, and nothing that the reduce waits for comes between the two.
bool may_fold(const Plan& plan, const Overlaps& overlaps, std::uint32_t r, std::uint32_t reduce) {
  const Step &recv = plan.steps[r], &sum = plan.steps[reduce];
  for (std::uint32_t t = r + 1; t < reduce; t++)
    if (overlaps.conflict(plan.steps[t], sum) || overlaps.conflict(plan.steps[t], recv)) return false;
  const Ref& arrived = plan.dst(recv)[0];
  if (has(plan.dst(sum), arrived)) return true;
  for (std::uint32_t t = reduce + 1; t < plan.steps.size(); t++)
    for (const Ref& ref : plan.src(plan.steps[t]))
      if (ref.space == Space::scratch && contains(ref, arrived.first)) return false;
  return true;
}

}  // namespace

std::vector<Folding> find_foldings(const Plan& plan) {
  std::vector<Folding> found;
  // Every reduce is compared with all steps: of longer plans, for a thousand ranks, that would take longer than is to be gained.
  constexpr std::size_t kMostSteps = 4096;
  if (plan.staged || plan.steps.size() > kMostSteps) return found;
  const Overlaps overlaps(plan);
  for (std::uint32_t s = 0; s < plan.steps.size(); s++) {
    const Step& sum = plan.steps[s];
    if (sum.op != OpCode::reduce || !is_plain(plan, sum)) continue;
    const auto r = recv_of(plan, s);
    if (!r || !may_fold(plan, overlaps, *r, s)) continue;
    found.resize(plan.steps.size());
    found[*r].reduce = static_cast<std::int32_t>(s);
    for (std::uint32_t t = 0; t < *r; t++)
      if (overlaps.conflict(plan.steps[t], sum)) found[*r].after.push_back(t);
  }
  return found;
}

}  // namespace unisono::engine
