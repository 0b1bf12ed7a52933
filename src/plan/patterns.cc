#include "plan/patterns.h"

#include <algorithm>

namespace unisono::plan {

BinomialTree::BinomialTree(const Shape& shape) {
  const std::int32_t n = shape.ranks;
  const auto rank_at = [&](std::int32_t v) { return (shape.root + v) % n; };
  position = (shape.rank - shape.root + n) % n;
  const std::int32_t span = position == 0 ? 1 << ceil_log2(n) : position & -position;
  size = std::min(span, n - position);
  if (position != 0) parent = rank_at(position & (position - 1));
  for (std::int32_t half = span / 2; half > 0; half /= 2) {
    const std::int32_t child = position + half;
    if (child < n) children.push_back({rank_at(child), child, std::min(half, n - child)});
  }
}

Ref reduce_children(PlanBuilder& b, const BinomialTree& tree, Ref own, Ref into, bool final) {
  if (tree.children.empty()) return own;
  struct Part {
    std::int32_t rank;
    Ref ref;
  };
  std::vector<Part> parts{{b.rank(), own}};
  // Smallest subtree first: it is the first to be complete.
  for (auto child = tree.children.rbegin(); child != tree.children.rend(); ++child) {
    const Ref buffer = b.new_scratch(b.extent_of(own));
    b.recv(child->rank, buffer);
    parts.push_back({child->rank, buffer});
  }
  std::sort(parts.begin(), parts.end(), [](const Part& x, const Part& y) { return x.rank < y.rank; });
  std::vector<Ref> sources;
  for (const Part& part : parts) sources.push_back(part.ref);
  b.reduce({into}, sources, final);
  return into;
}

void ring_reduce_scatter(PlanBuilder& b, std::initializer_list<Ref> into) {
  const std::int32_t n = b.ranks(), r = b.rank();
  const std::int32_t next = b.around(r + 1), previous = b.around(r - 1);
  Ref partial = PlanBuilder::in(previous);  // block r-1 starts its way here
  for (std::int32_t t = 0; t < n - 1; t++) {
    const std::int32_t block = (r - 2 - t + 2 * n) % n;
    const Ref arrived = b.new_scratch(block);
    b.send(next, partial);
    b.recv(previous, arrived);
    if (block == r) {
      b.reduce(into, std::vector<Ref>{arrived, PlanBuilder::in(block)}, true);
    } else {
      b.reduce(arrived, {arrived, PlanBuilder::in(block)}, false);
    }
    partial = arrived;
  }
}

void ring_all_gather(PlanBuilder& b, Ref own) {
  const std::int32_t n = b.ranks(), r = b.rank();
  for (std::int32_t t = 0; t < n - 1; t++) {
    b.send(b.around(r + 1), t == 0 ? own : PlanBuilder::out(b.around(r - t)));
    b.recv(b.around(r - 1), PlanBuilder::out((r - 1 - t + n) % n));
  }
}

std::vector<std::int32_t> all_ranks_but(std::int32_t ranks, std::int32_t without) {
  std::vector<std::int32_t> rest;
  for (std::int32_t q = 0; q < ranks; q++) {
    if (q != without) rest.push_back(q);
  }
  return rest;
}

std::vector<std::int32_t> circulant_strides(std::int32_t n) {
  std::vector<std::int32_t> strides{n};
  while (strides.back() > 1) strides.push_back((strides.back() + 1) / 2);
  return strides;
}

void circulant_reduce_scatter(PlanBuilder& b, std::initializer_list<Ref> into) {
  const std::int32_t n = b.ranks(), r = b.rank();
  // at[i]: where this rank's partial sum of block r+i is.
  std::vector<Ref> at;
  for (std::int32_t i = 0; i < n; i++) at.push_back(PlanBuilder::in((r + i) % n));
  const auto strides = circulant_strides(n);
  for (std::size_t k = 0; k + 1 < strides.size(); k++) {
    const std::int32_t far = strides[k], stride = strides[k + 1], count = far - stride;
    const std::int32_t from = b.around(r - stride);
    RefList leaving;
    for (std::int32_t i = stride; i < far; i++) leaving.add(at[static_cast<std::size_t>(i)]);
    b.send((r + stride) % n, leaving);
    const Ref arrived = b.new_scratch_wrapped(r, count);
    b.recv(from, arrived);
    // One reduce for each run of blocks whose sums lie side by side.
    for (std::int32_t i = 0, run = 0; i < count; i += run) {
      Ref own = at[static_cast<std::size_t>(i)];
      for (run = 1; i + run < count; run++) {
        const Ref& next = at[static_cast<std::size_t>(i) + static_cast<std::size_t>(run)];
        if (next.space != own.space || next.first != own.first + run) break;
      }
      own.count = run;
      const Ref other{Space::scratch, -1, arrived.first + i, run};
      const std::vector<Ref> sources = from < r ? std::vector<Ref>{other, own} : std::vector<Ref>{own, other};
      const bool final = stride == 1;
      b.reduce(final ? into : std::initializer_list<Ref>{other}, sources, final);
      for (std::int32_t j = i; j < i + run; j++)
        at[static_cast<std::size_t>(j)] = {Space::scratch, -1, arrived.first + j, 1};
    }
  }
}

void circulant_all_gather(PlanBuilder& b, Ref own, std::int32_t complete) {
  const std::int32_t n = b.ranks(), r = b.rank();
  const auto strides = circulant_strides(n);
  for (std::size_t k = strides.size() - 1; k > 0; k--) {
    const std::int32_t stride = strides[k], count = strides[k - 1] - stride;
    const std::int32_t to = b.around(r - stride), from = (r + stride) % n;
    if (to != complete) {
      RefList leaving(own);
      const RefList others = b.wrapped(Space::out, (r + 1) % n, count - 1);
      for (const Ref& ref : others.refs()) leaving.add(ref);
      b.send(to, leaving);
    }
    if (r != complete) b.recv(from, b.wrapped(Space::out, from, count));
  }
}

void direct_reduce_scatter(PlanBuilder& b, Ref into) {
  const std::int32_t n = b.ranks(), r = b.rank();
  std::vector<Ref> sources(static_cast<std::size_t>(n), PlanBuilder::in(r));
  for (std::int32_t i = 1; i < n; i++) {
    const std::int32_t to = (r + i) % n, from = b.around(r - i);
    b.send(to, PlanBuilder::in(to));
    sources[static_cast<std::size_t>(from)] = b.new_scratch(r);
    b.recv(from, sources[static_cast<std::size_t>(from)]);
  }
  b.reduce({into}, sources, true);
}

void share_all(PlanBuilder& b, std::uint8_t exposed) {
  b.share(std::vector<std::uint8_t>(static_cast<std::size_t>(b.ranks()), exposed));
}

Plan single_copy_of(Plan shared) {
  shared.algorithm = "single_copy";
  return shared;
}

std::vector<std::int32_t> neighbours_of(const HostMap& nodes, std::int32_t rank) {
  const auto members = nodes.members(nodes.host_of(rank));
  const auto size = static_cast<std::int32_t>(members.size());
  std::vector<std::int32_t> order;
  for (std::int32_t k = 1; k < size; k++)
    order.push_back(members[static_cast<std::size_t>((nodes.place_of(rank) + k) % size)]);
  return order;
}

std::vector<Ref> parts_on_node(const PlanBuilder& b, const HostMap& nodes, std::int32_t block) {
  std::vector<Ref> parts;
  for (const std::int32_t q : nodes.members(nodes.host_of(b.rank())))
    parts.push_back(q == b.rank() ? PlanBuilder::in(block) : PlanBuilder::stage(q, block));
  return parts;
}

Plan staged_nodes_of(Plan flat) {
  flat.algorithm = "staged_nodes";
  return flat;
}

namespace {
void share_apart(PlanBuilder& b, std::uint8_t root, std::uint8_t others) {
  std::vector<std::uint8_t> by_rank(static_cast<std::size_t>(b.ranks()), others);
  by_rank[static_cast<std::size_t>(b.root())] = root;
  b.share(std::move(by_rank));
}
}  // namespace

void share_root(PlanBuilder& b, std::uint8_t exposed) { share_apart(b, exposed, 0); }
void share_all_but_root(PlanBuilder& b, std::uint8_t exposed) { share_apart(b, 0, exposed); }

void wait_for_others(PlanBuilder& b, std::uint16_t channel) {
  for (std::int32_t i = 1; i < b.ranks(); i++) b.wait(b.around(b.rank() - i), channel);
}

}  // namespace unisono::plan
