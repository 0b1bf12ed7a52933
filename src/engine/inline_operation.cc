#include "engine/inline_operation.h"

#include <fmt/format.h>

#include <cstring>

#include "kernels/kernels.h"

namespace unisono::engine {

bool InlineCall::fits(int size) const noexcept {
  return count <= plan::kMostPosted && plan::goes_inline(collective, size, block());
}

InlineOperation::InlineOperation(const InlineCall& call, Domain& domain, const Signature& signature,
                                 std::uint64_t sequence)
    : Running(sequence),
      call_(call),
      domain_(domain),
      signature_(signature),
      posted_(static_cast<std::size_t>(plan::posted_inline(call.collective, domain.size(), call.block()))) {
  if (static_cast<std::size_t>(domain.size()) > kFew) many_.resize(static_cast<std::size_t>(domain.size()));
}

bool InlineOperation::announce() {
  const int n = domain_.size(), me = domain_.rank();
  for (; next_ < n; next_++)
    if (next_ != me && !domain_.may_announce(next_, sequence_)) return false;
  if (fail_of_the_last(domain_)) return false;
  const auto bytes = call_.from_root() && me != call_.root ? 0 : posted_;
  if (bytes > kInlineBytes)
    if (Status s = domain_.widen(); !s.ok()) {
      fail(std::move(s));
      return false;
    }
  domain_.announce(sequence_, signature_, {call_.in, bytes});
  announced_ = true;
  next_ = 0;
  return true;
}

bool InlineOperation::advance() {
  if (done_) return false;
  if (!announced_ && !announce()) return false;
  const bool moved = look();
  domain_.tell();
  return moved;
}

bool InlineOperation::look() {
  const int before = next_;
  for (; next_ < domain_.size(); next_++) {
    if (!awaits(next_)) continue;
    const Line* l = domain_.line(next_, sequence_);
    if (l == nullptr) return next_ != before;
    if (l->signature != signature_) {
      fail(Discord{next_, sequence_, signature_, l->signature});
      return true;
    }
    line(next_) = domain_.payload(next_, sequence_, *l, posted_);
    if (line(next_) == nullptr) {
      fail(Status::internal(fmt::format("rank {} announced its operand outside its shared memory", next_)));
      return true;
    }
  }
  take();
  done_ = true;
  return true;
}

bool InlineOperation::awaits(int q) const noexcept {
  if (posted_ <= kInlineBytes || !rooted(call_.collective)) return true;
  const bool at_root = domain_.rank() == call_.root, from_root = call_.from_root();
  return (at_root && !from_root) || (from_root && q == call_.root);
}

std::vector<int> InlineOperation::waiting_for() const {
  std::vector<int> missing;
  for (int q = 0; q < domain_.size(); q++)  // before it is announced, for all to have begun the one before
    if (q != domain_.rank() && domain_.latest(q) < sequence_ && (!announced_ || awaits(q))) missing.push_back(q);
  return missing;
}

/// All lines are there: combine or copy what this rank gets.
void InlineOperation::take() {
  const int n = domain_.size(), me = domain_.rank();
  const auto block = static_cast<std::size_t>(call_.block());
  if (block == 0) return;  // there may be no memory at all
  std::byte* out = call_.out;
  switch (call_.collective) {
    case Collective::barrier:
      return;
    case Collective::broadcast:
      if (me != call_.root || out != call_.in) std::memcpy(out, line(call_.root), block);
      return;
    case Collective::scatter:
      std::memcpy(out, line(call_.root) + block * static_cast<std::size_t>(me), block);
      return;
    case Collective::gather:
      if (me != call_.root) return;
      [[fallthrough]];
    case Collective::all_gather:
      for (int q = 0; q < n; q++) std::memcpy(out + block * static_cast<std::size_t>(q), line(q), block);
      return;
    case Collective::all_to_all:
      for (int q = 0; q < n; q++)
        std::memcpy(out + block * static_cast<std::size_t>(q), line(q) + block * static_cast<std::size_t>(me), block);
      return;
    case Collective::reduce:
      if (me != call_.root) return;
      [[fallthrough]];
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      combine();
  }
}

void InlineOperation::combine() {
  const int n = domain_.size();
  const std::size_t skip =
      call_.collective == Collective::reduce_scatter ? static_cast<std::size_t>(call_.block() * domain_.rank()) : 0;
  std::array<const void*, kFew> few;
  std::vector<const void*> many;
  std::span<const void*> src(few.data(), std::min<std::size_t>(kFew, static_cast<std::size_t>(n)));
  if (static_cast<std::size_t>(n) > kFew) {
    many.resize(static_cast<std::size_t>(n));
    src = many;
  }
  for (int q = 0; q < n; q++) src[static_cast<std::size_t>(q)] = line(q) + skip;  // rank order
  kernels::reduce({call_.dtype, call_.op, call_.op == ReduceOp::avg ? n : 1}, call_.out, nullptr, src,
                  static_cast<std::size_t>(call_.count));
}

}  // namespace unisono::engine
