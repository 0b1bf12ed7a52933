/// Which algorithms a call may run, and what the first call of its kind has found out for all that follow.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "group/group_impl.h"
#include "plan/widened.h"

namespace unisono::detail {

namespace {
/// Whether sums of it are f32 until they are whole.
bool adds_halves(const Call& call) noexcept {
  const bool half = call.dtype == DType::f16 || call.dtype == DType::bf16;
  const bool adds = call.op == ReduceOp::sum || call.op == ReduceOp::avg || call.op == ReduceOp::product;
  return reduces(call.collective) && half && adds;
}
}  // namespace

Result<const plan::Algorithm*> GroupImpl::choose(const Pending& p) const {
  const bool one_host = parts_.domain != nullptr;
  if (p.requested != nullptr) {
    if (plan::needs_one_host(p.requested->place) && !one_host)
      return Status::invalid(fmt::format(
          "algorithm {} needs all ranks of group \"{}\" to share memory; they talk over {}. Nothing was sent",
          p.requested->name, parts_.name, parts_.transport));
    const bool shared =
        plan::needs_shared_buffers(p.requested->place) || p.requested->place == plan::Place::peer_memory;
    if (shared && p.call.collective == Collective::all_to_all && !p.call.counts.empty())
      return Status::invalid(fmt::format(
          "all_to_all with counts cannot run with algorithm {}: no rank knows where the others' blocks begin. "
          "Nothing was sent",
          p.requested->name));
    if (p.requested->place == plan::Place::peer_memory && !parts_.peer_memory)
      return Status::invalid(
          fmt::format("algorithm {} reads the memory of other processes, and not all ranks of group \"{}\" may "
                      "(process_vm_readv; UNISONO_PEER_MEMORY). Nothing was sent",
                      p.requested->name, parts_.name));
    if (p.requested->has_partial_sums(size()) && plan::needs_one_host(p.requested->place) && adds_halves(p.call))
      return Status::invalid(fmt::format("algorithm {} would round partial sums of {} to 16 bits. Nothing was sent",
                                         p.requested->name, name_of(p.call.dtype)));
    if (p.requested->even_only() && !even(p.call))
      return Status::invalid(fmt::format("algorithm {} needs equal counts. Nothing was sent", p.requested->name));
    return p.requested;
  }
  const plan::Algorithm* chosen = parts_.selector.choose(question(p.call));
  if (chosen == nullptr) return Status::internal(fmt::format("no algorithm for {}", name_of(p.call.collective)));
  return chosen;
}

plan::Question GroupImpl::question(const Call& call) const {
  // all_to_all with counts: no rank knows how many slices the others have, which stages would need.
  const bool own_row_only = call.collective == Collective::all_to_all && !call.counts.empty();
  plan::Question q;
  q.collective = call.collective;
  q.one_host = parts_.domain != nullptr && !own_row_only;
  // Without a word from the user it is not a choice but a contest (rival.cc).
  const bool reach = parts_.peer_memory && q.one_host;
  q.peer_memory = reach && overridden_[static_cast<std::size_t>(call.collective)];
  q.contested = reach && !q.peer_memory;
  q.several_hosts = parts_.several_hosts;
  q.several_nodes = parts_.several_nodes && q.one_host;
  q.ranks = size();
  q.bytes = collective_bytes(call, size());
  q.even = even(call) && !own_row_only;
  q.rounds = adds_halves(call);
  return q;
}

std::shared_ptr<const engine::Compiled> GroupImpl::compiled(const Call& call, const plan::Algorithm& algorithm) {
  const int root = root_of(call);
  const bool widen = adds_halves(call) && algorithm.has_partial_sums(size());
  auto& slot = plans_[{call.collective, &algorithm, root, widen}];
  if (slot == nullptr) {
    if (plans_.size() > 256) {  // a group of many roots and overrides: start over rather than grow
      plans_.clear();
      return compiled(call, algorithm);
    }
    plan::Plan plan = algorithm.build({size(), rank(), root, parts_.hosts, parts_.nodes});
    slot = std::make_shared<const engine::Compiled>(engine::compile(widen ? plan::widened(plan) : std::move(plan)));
  }
  return slot;
}

/// Calls repeat. Choosing algorithms and binding their plans to sizes takes longer than a small operation, and depends on neither
/// buffers nor peers; so it is done again only when another kind of call has taken the place in the meantime.
Status GroupImpl::know(Pending& p) {
  const engine::Signature signature = signature_of(p.call, p.requested);
  const std::uint64_t hash = (signature.what ^ signature.count * 0x9e3779b97f4a7c15ull) * 0x9e3779b97f4a7c15ull;
  Known& known = known_[hash >> (64 - kKnownBits)];
  if (!known.is(signature, p.call)) {
    auto found = find_out(p, signature);
    if (!found) return found.status();
    known = std::move(found).value();
  }
  p.known = &known;
  p.algorithm = known.algorithm;
  return {};
}

bool Known::is(const engine::Signature& other, const Call& call) const noexcept {
  return prepared != nullptr && prepared->signature == other && std::ranges::equal(counts, call.counts) &&
         std::ranges::equal(output_counts, call.output_counts);
}

namespace {
/// Whether a shared plan needs nothing of any other rank than this one.
bool only_one_opens(const plan::Plan& shared, int rank) {
  const auto& exposed = shared.exposed;
  return std::count(exposed.begin(), exposed.end(), 0) == std::ssize(exposed) - 1 &&
         exposed[static_cast<std::size_t>(rank)] != 0;
}
}  // namespace

Result<Known> GroupImpl::find_out(const Pending& p, const engine::Signature& signature) {
  const auto chosen = choose(p);
  if (!chosen) return chosen.status();
  const Call& call = p.call;
  const auto bind = [&](const plan::Algorithm& algorithm) {
    return engine::bound(compiled(call, algorithm), {call.count, call.counts, call.output_counts}, call.dtype);
  };
  const auto prepared = std::make_shared<engine::Prepared>();
  prepared->usual = bind(**chosen);
  prepared->reads_peers = (*chosen)->place == plan::Place::peer_memory;
  prepared->dtype = call.dtype;
  prepared->op = call.op;
  prepared->signature = signature;
  Known known;
  const auto [shared, preferred] = shared_algorithms(p);
  if (shared != nullptr) prepared->shared = bind(*shared);
  if (preferred != nullptr) prepared->preferred = bind(*preferred);
  known.shared = shared;
  known.preferred = preferred;
  known.rival = rival_algorithm(p);
  if (known.rival != nullptr) prepared->rival = bind(*known.rival);
  prepared->judge = judge_of(call);
  prepared->judge_opens = p.requested == nullptr && prepared->shared && !prepared->preferred &&
                          only_one_opens(prepared->shared.plan(), prepared->judge);
  if (prepared->rival || prepared->judge_opens) known.rivalry = &rivalry_of(call, prepared->judge);
  if (rooted(call.collective) && (prepared->reads_peers || prepared->rival))
    known.got = engine::got_block(prepared->reads_peers ? prepared->usual : prepared->rival).bytes;
  known.counts.assign(call.counts.begin(), call.counts.end());
  known.output_counts.assign(call.output_counts.begin(), call.output_counts.end());
  known.algorithm = *chosen;
  known.prepared = prepared;
  return known;
}

}  // namespace unisono::detail
