#include "tuning/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <set>
#include <sstream>

namespace unisono::tuning {

namespace {

/// The value of the first line "name : value", or nothing.
std::string_view value_of(std::string_view text, std::string_view name) {
  const auto at = text.find(name);
  if (at == std::string_view::npos) return {};
  std::string_view line = text.substr(at, text.find('\n', at) - at);
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return {};
  line.remove_prefix(colon + 1);
  const auto first = line.find_first_not_of(" \t");
  return first == std::string_view::npos ? std::string_view{} : line.substr(first);
}

/// What layout_text() made, from the line that begins so.
std::vector<std::int32_t> runs_of(std::string_view topology, std::string_view begin) {
  std::vector<std::int32_t> numbers;
  const auto line = topology.find(begin);
  if (line == std::string_view::npos) return numbers;
  const auto text = topology.substr(line + begin.size());
  std::istringstream runs(std::string(text.substr(0, text.find('\n'))));
  std::int32_t number = 0;
  std::size_t ranks = 0;
  for (char times = 0; runs >> number >> times >> ranks && times == 'x' && ranks <= (1u << 24);)
    numbers.insert(numbers.end(), ranks, number);
  return numbers;
}

}  // namespace

std::string this_processor() {
  // The kernel writes this file processor by processor as it is read, and asks each for its clock: the first KiB is one processor.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/cpuinfo", "re"), &std::fclose);
  std::array<char, 1024> buffer{};
  if (file == nullptr) return "unknown";
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  const std::string_view text(buffer.data(), std::fread(buffer.data(), 1, buffer.size(), file.get()));
  if (const auto model = value_of(text, "model name"); !model.empty()) return std::string(model);
  const auto implementer = value_of(text, "CPU implementer"), part = value_of(text, "CPU part");
  return part.empty() ? "unknown" : fmt::format("{} {}", implementer, part);
}

std::string layout_text(std::span<const std::int32_t> hosts) {
  std::string text;
  for (std::size_t begin = 0; begin < hosts.size();) {
    std::size_t end = begin;
    while (end < hosts.size() && hosts[end] == hosts[begin]) end++;
    text += fmt::format("{}{}x{}", text.empty() ? "" : " ", hosts[begin], end - begin);
    begin = end;
  }
  return text;
}

std::string describe(std::string_view version, std::string_view transport, std::span<const Place> ranks) {
  std::vector<std::int32_t> hosts, nodes;
  for (const Place& rank : ranks) hosts.push_back(rank.machine);
  for (const Place& rank : ranks) nodes.push_back(rank.node);
  std::string text = fmt::format("unisono {} over {}\nranks {}\n", version, transport, layout_text(hosts));
  if (std::any_of(nodes.begin(), nodes.end(), [](std::int32_t node) { return node >= 0; }))
    text += fmt::format("nodes {}\n", layout_text(nodes));
  std::set<std::int32_t> told;
  for (const Place& rank : ranks)
    if (told.insert(rank.machine).second)
      text += fmt::format("host {} {}: {}, {} core{}\n", rank.machine, rank.host, rank.processor, rank.cores,
                          rank.cores == 1 ? "" : "s");
  return text;
}

std::vector<std::int32_t> hosts_of(std::string_view topology) { return runs_of(topology, "\nranks "); }
std::vector<std::int32_t> nodes_of(std::string_view topology) { return runs_of(topology, "\nnodes "); }

bool several_nodes(std::string_view topology) {
  const auto nodes = nodes_of(topology);
  const std::set<std::int32_t> different(nodes.begin(), nodes.end());
  return different.size() > 1 && different.size() < nodes.size() && *different.begin() >= 0;
}

std::string key_of(std::string_view topology) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : topology) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return fmt::format("{:016x}", h);
}

}  // namespace unisono::tuning
