#include "simulate/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

/// Numbers of links. fat-tree, with m = k/2: four blocks of k m m: edge to aggregation, aggregation to core, core to
/// aggregation, aggregation to edge, each by (pod, edge or core, aggregation). dragonfly: local links by (group, from, to), then global
/// ones by (group, channel), channel j of a group being on router j / h. torus: by (node, dimension, direction).
namespace unisono::simulate {

namespace {

constexpr std::array<std::string_view, 3> kAxes{"x", "y", "z"};

LinkId id(std::int64_t value) { return static_cast<LinkId>(value); }

void route_fat_tree(const Topology& t, std::int32_t from, std::int32_t to, std::vector<LinkId>& links) {
  const std::int64_t m = t.k / 2, block = t.k * m * m;
  const std::int64_t pod = from / (m * m), edge = from / m % m, pod_to = to / (m * m), edge_to = to / m % m;
  if (pod == pod_to && edge == edge_to) return;
  const std::int64_t aggregation = to % m, core = edge_to;  // the way up follows the destination's number
  links.push_back(id((pod * m + edge) * m + aggregation));
  if (pod != pod_to) {
    links.push_back(id(block + (pod * m + core) * m + aggregation));
    links.push_back(id(2 * block + (pod_to * m + core) * m + aggregation));
  }
  links.push_back(id(3 * block + (pod_to * m + edge_to) * m + aggregation));
}

void route_dragonfly(const Topology& t, std::int32_t from, std::int32_t to, std::vector<LinkId>& links) {
  const std::int64_t a = t.a, h = t.h, p = t.p, groups = a * h + 1;
  const auto local = [&](std::int64_t group, std::int64_t x, std::int64_t y) {
    if (x != y) links.push_back(id((group * a + x) * a + y));
  };
  const std::int64_t router = from / p % a, group = from / (p * a), router_to = to / p % a, group_to = to / (p * a);
  if (group == group_to) return local(group, router, router_to);
  // Channel j of group g leads to group g + j + 1, and channel groups - 2 - j back.
  const std::int64_t channel = (group_to - group - 1 + groups) % groups, back = groups - 2 - channel;
  local(group, router, channel / h);
  links.push_back(id(groups * a * a + group * a * h + channel));
  local(group_to, back / h, router_to);
}

void route_torus(const Topology& t, std::int32_t from, std::int32_t to, std::vector<LinkId>& links) {
  std::int64_t node = from, stride = 1, rest = from, rest_to = to;
  for (std::size_t d = 0; d < t.sides.size(); d++) {
    const std::int64_t side = t.sides[d];
    std::int64_t at = rest % side;
    const std::int64_t ahead = (rest_to % side - at + side) % side;
    const bool forward = 2 * ahead <= side;
    for (std::int64_t hops = forward ? ahead : side - ahead; hops > 0; hops--) {
      links.push_back(id((node * 3 + static_cast<std::int64_t>(d)) * 2 + (forward ? 0 : 1)));
      const std::int64_t next = (at + (forward ? 1 : side - 1)) % side;
      node += (next - at) * stride;
      at = next;
    }
    rest /= side;
    rest_to /= side;
    stride *= side;
  }
}

std::string fat_tree_link(const Topology& t, LinkId link) {
  const std::int64_t m = t.k / 2, block = t.k * m * m, within = link % block;
  const std::int64_t pod = within / (m * m), outer = within / m % m, aggregation = within % m;
  switch (link / block) {
    case 0:
      return fmt::format("pod {}: edge {} up to aggregation {}", pod, outer, aggregation);
    case 1:
      return fmt::format("pod {}: aggregation {} up to core {}", pod, aggregation, aggregation * m + outer);
    case 2:
      return fmt::format("core {} down to pod {}, aggregation {}", aggregation * m + outer, pod, aggregation);
    default:
      return fmt::format("pod {}: aggregation {} down to edge {}", pod, aggregation, outer);
  }
}

std::string dragonfly_link(const Topology& t, LinkId link) {
  const std::int64_t a = t.a, h = t.h, groups = a * h + 1;
  if (link < groups * a * a)
    return fmt::format("group {}: router {} to router {}", link / (a * a), link / a % a, link % a);
  const std::int64_t channel = link - groups * a * a, group = channel / (a * h);
  return fmt::format("group {} to group {}", group, (group + channel % (a * h) + 1) % groups);
}

std::string torus_link(const Topology& t, LinkId link) {
  const std::int64_t node = link / 6;
  return fmt::format("node {},{},{} to {}{}", node % t.sides[0], node / t.sides[0] % t.sides[1],
                     node / t.sides[0] / t.sides[1], link % 2 == 0 ? "+" : "-", kAxes[link / 2 % 3]);
}

}  // namespace

std::int64_t capacity(const Topology& t) {
  switch (t.kind) {
    case Topology::Kind::crossbar:
      return 0;
    case Topology::Kind::fat_tree:
      return std::int64_t{t.k} * t.k * t.k / 4;
    case Topology::Kind::dragonfly:
      return std::int64_t{t.a} * t.p * (std::int64_t{t.a} * t.h + 1);
    case Topology::Kind::torus:
      return std::int64_t{t.sides[0]} * t.sides[1] * t.sides[2];
  }
  return 0;
}

Status check(const Topology& t) {
  constexpr std::int32_t most = 2000;  // beyond any machine, and no product below overflows
  switch (t.kind) {
    case Topology::Kind::crossbar:
      return {};
    case Topology::Kind::fat_tree:
      if (t.k < 2 || t.k % 2 != 0 || t.k > most)
        return Status::invalid("fat-tree: k, the ports of a switch, must be even: fat-tree:k=8");
      if (t.taper <= 0)
        return Status::invalid("fat-tree: taper must be above 0: 1 is a full tree, 2 halves the rate above the edge");
      break;
    case Topology::Kind::dragonfly:
      if (std::min({t.a, t.h, t.p}) < 1 || std::max({t.a, t.h, t.p}) > most)
        return Status::invalid(
            "dragonfly: routers of a group, cables to other groups and hosts of a router: dragonfly:a=4,h=2,p=2");
      break;
    case Topology::Kind::torus:
      if (*std::min_element(t.sides.begin(), t.sides.end()) < 1 ||
          *std::max_element(t.sides.begin(), t.sides.end()) > most)
        return Status::invalid("torus: one to three sides: torus:8x8x8");
  }
  if (capacity(t) > (std::int64_t{1} << 24) || link_count(t) > (std::int64_t{1} << 28))
    return Status::invalid(fmt::format("a network for {} hosts: at most 16777216 are simulated", capacity(t)));
  return {};
}

std::int64_t link_count(const Topology& t) {
  const std::int64_t k = t.k, a = t.a;
  switch (t.kind) {
    case Topology::Kind::crossbar:
      return 0;
    case Topology::Kind::fat_tree:
      return 4 * k * (k / 2) * (k / 2);
    case Topology::Kind::dragonfly:
      return (a * t.h + 1) * (a * a + a * t.h);
    case Topology::Kind::torus:
      return capacity(t) * 6;
  }
  return 0;
}

void route(const Topology& t, std::int32_t from, std::int32_t to, std::vector<LinkId>& links) {
  switch (t.kind) {
    case Topology::Kind::crossbar:
      return;
    case Topology::Kind::fat_tree:
      return route_fat_tree(t, from, to, links);
    case Topology::Kind::dragonfly:
      return route_dragonfly(t, from, to, links);
    case Topology::Kind::torus:
      return route_torus(t, from, to, links);
  }
}

double time_per_byte(const Topology& t, double port) {
  const double link = t.link > 0 ? t.link : port;
  return t.kind == Topology::Kind::fat_tree ? link * t.taper : link;
}

std::string link_name(const Topology& t, LinkId link) {
  switch (t.kind) {
    case Topology::Kind::crossbar:
      return "";
    case Topology::Kind::fat_tree:
      return fat_tree_link(t, link);
    case Topology::Kind::dragonfly:
      return dragonfly_link(t, link);
    case Topology::Kind::torus:
      return torus_link(t, link);
  }
  return "";
}

}  // namespace unisono::simulate
