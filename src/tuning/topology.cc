#include "tuning/topology.h"

#include <fmt/format.h>

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
  std::vector<std::int32_t> hosts;
  for (const Place& rank : ranks) hosts.push_back(rank.machine);
  std::string text = fmt::format("unisono {} over {}\nranks {}\n", version, transport, layout_text(hosts));
  std::set<std::int32_t> told;
  for (const Place& rank : ranks)
    if (told.insert(rank.machine).second)
      text += fmt::format("host {} {}: {}, {} core{}\n", rank.machine, rank.host, rank.processor, rank.cores,
                          rank.cores == 1 ? "" : "s");
  return text;
}

std::vector<std::int32_t> hosts_of(std::string_view topology) {
  std::vector<std::int32_t> hosts;
  const auto line = topology.find("\nranks ");
  if (line == std::string_view::npos) return hosts;
  std::istringstream runs(std::string(topology.substr(line + 7, topology.find('\n', line + 1) - line - 7)));
  std::int32_t host = 0;
  std::size_t ranks = 0;
  for (char times = 0; runs >> host >> times >> ranks && times == 'x' && ranks <= (1u << 24);)
    hosts.insert(hosts.end(), ranks, host);
  return hosts;
}

std::string key_of(std::string_view topology) {
  std::uint64_t h = 0xcbf29ce484222325ull;
  for (const char c : topology) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return fmt::format("{:016x}", h);
}

}  // namespace unisono::tuning
