#include "simulate/memory.h"

#include <fmt/format.h>

#include <algorithm>

namespace unisono::simulate {

Memory::Memory(const Numa& numa, std::vector<std::int32_t> node_of_rank)
    : numa_(numa), node_of_rank_(std::move(node_of_rank)) {
  const auto nodes = static_cast<std::size_t>(numa.nodes);
  links_.resize(nodes * nodes);
  memories_.resize(nodes);
}

double Memory::Server::serve(double seconds, double now) {
  busy += seconds;
  return free = std::max(free, now) + seconds;
}

double Memory::cross(std::int32_t from, std::int32_t to, double bytes, double now) {
  if (from == to) return now;
  crossed_ += bytes;
  return links_[static_cast<std::size_t>(from) * static_cast<std::size_t>(numa_.nodes) + static_cast<std::size_t>(to)]
      .serve(bytes * numa_.link, now);
}

double Memory::read(std::int32_t from, std::int32_t to, double bytes, double now) {
  const double through = cross(from, to, bytes, now);
  return std::max(through, memories_[static_cast<std::size_t>(from)].serve(bytes * numa_.memory, now));
}

double Memory::write(std::int32_t from, std::int32_t to, double bytes, double now) {
  const double through = cross(from, to, bytes, now);
  return std::max(through, memories_[static_cast<std::size_t>(to)].serve(bytes * numa_.memory, now));
}

std::pair<std::string, double> Memory::busiest() const {
  std::pair<std::string, double> most{"", 0};
  for (std::size_t i = 0; i < links_.size(); i++)
    if (links_[i].busy > most.second)
      most = {fmt::format("link from node {} to node {}", i / memories_.size(), i % memories_.size()), links_[i].busy};
  for (std::size_t i = 0; i < memories_.size(); i++)
    if (memories_[i].busy > most.second) most = {fmt::format("memory of node {}", i), memories_[i].busy};
  return most;
}

}  // namespace unisono::simulate
