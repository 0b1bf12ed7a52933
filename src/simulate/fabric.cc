#include "simulate/fabric.h"

#include <fmt/format.h>

#include <algorithm>

namespace unisono::simulate {

namespace {
constexpr std::int64_t kMostLookedAt = 400'000'000;  // distances x hosts: a few seconds
}

Result<Fabric> Fabric::make(const Model& model, const World& world, Picture picture) {
  const std::int64_t room = capacity(model.topology);
  if (room > 0 && world.hosts > room)
    return Status::invalid(fmt::format(
        "{} hosts do not fit into a network for {}: take a larger one, or more ranks on each host", world.hosts, room));
  Fabric fabric(model, picture == Picture::whole ? world.hosts : 1, picture);
  if (picture == Picture::one_host) {
    fabric.links_ = 1;
    UNISONO_TRY(fabric.measure_shifts(world));
  } else {
    fabric.links_ = link_count(model.topology);
    fabric.measure_hops();
  }
  fabric.free_.assign(static_cast<std::size_t>(fabric.links_ + 2 * fabric.hosts_), 0);
  fabric.busy_ = fabric.free_;
  return fabric;
}

/// Every distance that messages go, once: how many of them meet on the busiest link.
Status Fabric::measure_shifts(const World& world) {
  const Topology& topology = model_.topology;
  for (const Target& target : world.targets) shifts_[target.shift] = {};
  if (topology.kind == Topology::Kind::crossbar) return {};
  const std::int64_t looked_at = static_cast<std::int64_t>(shifts_.size()) * world.hosts;
  if (looked_at > kMostLookedAt)
    return Status::invalid(
        fmt::format("messages go {} different distances between {} hosts: {:.1e} ways to look at, at most {:.0e}",
                    shifts_.size(), world.hosts, static_cast<double>(looked_at), static_cast<double>(kMostLookedAt)));
  std::vector<std::uint32_t> load(static_cast<std::size_t>(link_count(topology)), 0);
  Route links;
  for (auto& entry : shifts_) {
    const std::int32_t shift = entry.first;
    auto& found = entry.second;
    if (shift == 0) continue;
    const auto each_way = [&](auto&& visit) {
      for (std::int32_t host = 0; host < world.hosts; host++) {
        links.clear();
        simulate::route(topology, host, (host + shift) % world.hosts, links);
        found.hops = std::max(found.hops, static_cast<double>(links.size()));
        for (const LinkId link : links) visit(load[link]);
      }
    };
    std::uint32_t most = 0;
    each_way([&](std::uint32_t& n) { most = std::max(most, ++n); });
    each_way([](std::uint32_t& n) { n = 0; });
    found.load = most;
  }
  return {};
}

/// The mean way, from a sample of pairs: what a simulation will cost.
void Fabric::measure_hops() {
  if (links_ == 0 || hosts_ < 2) return;
  Route links;
  const std::int32_t stride = std::max(1, hosts_ / 64);
  std::int64_t pairs = 0;
  for (std::int32_t from = 0; from < hosts_; from += stride)
    for (std::int32_t to = stride / 2; to < hosts_; to += stride, pairs++)
      simulate::route(model_.topology, from, to, links);
  mean_hops_ = static_cast<double>(links.size()) / static_cast<double>(pairs);
}

void Fabric::route(std::int32_t from, std::int32_t to, std::int32_t shift, Route& links) const {
  links.clear();
  links.push_back(static_cast<LinkId>(links_ + from));
  if (picture_ == Picture::whole) {
    simulate::route(model_.topology, from, to, links);
  } else if (const Shift& s = shifts_.at(shift); s.hops > 0) {
    links.push_back(0);
  }
  links.push_back(static_cast<LinkId>(links_ + hosts_ + to));
}

/// Without the gap between messages.
Fabric::Charge Fabric::charge(LinkId link, std::int32_t shift, double bytes) const {
  const Wire& wire = model_.network;
  if (link >= links_ + hosts_) return {bytes * wire.G, 0};
  if (link >= links_) return {bytes * wire.G, wire.L};
  const double rate = time_per_byte(model_.topology, wire.G), hop = model_.topology.hop;
  if (picture_ == Picture::whole) return {bytes * rate, hop};
  const Shift& s = shifts_.at(shift);
  return {bytes * rate * s.load, hop * s.hops};
}

double Fabric::serve(LinkId link, std::int32_t shift, double bytes, double& head, double& tail) {
  const Charge c = charge(link, shift, bytes);
  const double start = std::max(head, free_[link]);
  const double through = std::max(start + c.work, tail);
  free_[link] = through + gap(link);
  busy_[link] += c.work + gap(link);
  head = start + c.onward;
  tail = through + c.onward;
  return start;
}

Fabric::Charge Fabric::take(LinkId link, std::int32_t shift, double bytes, double now) {
  Charge c = charge(link, shift, bytes);
  c.work += gap(link);
  free_[link] = std::max(free_[link], now) + c.work;
  busy_[link] += c.work;
  return c;
}

double Fabric::left(std::size_t link, const Route& links, std::int32_t shift) const {
  const std::size_t first = std::max<std::size_t>(link, 1), last = links.size() - 1;  // between the ports
  double hops = first < last ? static_cast<double>(last - first) : 0;
  if (picture_ == Picture::one_host && hops > 0) hops = shifts_.at(shift).hops;
  return (link == 0 ? model_.network.L : 0) + hops * model_.topology.hop;
}

std::pair<LinkId, double> Fabric::busiest() const {
  const auto most = std::max_element(busy_.begin(), busy_.end());
  return {static_cast<LinkId>(most - busy_.begin()), *most};
}

std::string Fabric::name_of(LinkId link) const {
  if (link >= links_ + hosts_) return fmt::format("port into host {}", link - links_ - hosts_);
  if (link >= links_) return fmt::format("port out of host {}", link - links_);
  return picture_ == Picture::one_host ? "links between hosts" : link_name(model_.topology, link);
}

}  // namespace unisono::simulate
