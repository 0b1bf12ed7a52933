#include "base/host_topology.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <charconv>

namespace unisono {

namespace {
/// More than any machine has: the kernel refuses a mask that is too small for it.
constexpr int kMostCpus = 1 << 16;
}  // namespace

std::optional<int> HostTopology::node_of(std::span<const int> cpus) const {
  if (cpus.empty()) return std::nullopt;
  for (const NumaNode& node : nodes_)
    if (std::includes(node.cpus.begin(), node.cpus.end(), cpus.begin(), cpus.end())) return node.number;
  return std::nullopt;
}

std::string ranges_text(std::span<const int> numbers) {
  std::string text;
  for (std::size_t begin = 0; begin < numbers.size();) {
    std::size_t end = begin + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) end++;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[begin]);
    if (end - begin > 1) text += fmt::format("-{}", numbers[end - 1]);
    begin = end;
  }
  return text;
}

std::vector<int> parse_ranges(std::string_view text) {
  std::vector<int> numbers;
  const auto number = [&]() -> std::optional<int> {
    int value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || value < 0 || value >= kMostCpus) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
  };
  const auto skip = [&](char c) {
    if (!text.starts_with(c)) return false;
    text.remove_prefix(1);
    return true;
  };
  do {
    const auto first = number();
    const auto last = first && skip('-') ? number() : first;
    if (!last) return {};
    for (int i = *first; i <= *last; i++) numbers.push_back(i);
  } while (skip(','));
  return text.empty() ? numbers : std::vector<int>{};
}

std::string to_text(const HostTopology& topology) {
  if (topology.nodes().empty()) return "one node";
  std::string text;
  for (const NumaNode& node : topology.nodes())
    text += fmt::format("{}node {}: processors {}", text.empty() ? "" : "; ", node.number, ranges_text(node.cpus));
  return text;
}

Result<HostTopology> host_topology(const std::string& pretended) {
  if (pretended.empty()) return this_host_topology();
  auto topology = synthetic_topology(pretended);
  return topology ? topology : Result<HostTopology>(topology.status().with_context("UNISONO_TOPOLOGY"));
}

std::vector<int> usable_cpus() {
  std::vector<cpu_set_t> mask(kMostCpus / CPU_SETSIZE);
  const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, bytes, mask.data()) != 0) return cpus;
  for (int cpu = 0; cpu < kMostCpus; cpu++)
    if (CPU_ISSET_S(cpu, bytes, mask.data())) cpus.push_back(cpu);
  return cpus;
}

Status run_on_cpus(std::span<const int> cpus) {
  std::vector<cpu_set_t> mask(kMostCpus / CPU_SETSIZE);
  const std::size_t bytes = mask.size() * sizeof(cpu_set_t);
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, mask.data());
  if (::sched_setaffinity(0, bytes, mask.data()) == 0) return {};
  return Status::system(fmt::format("cannot run on processors {}", ranges_text(cpus)), errno);
}

bool move_to_cpu(int cpu) noexcept {
  if (cpu < 0 || cpu >= kMostCpus) return false;
  cpu_set_t before[kMostCpus / CPU_SETSIZE], there[kMostCpus / CPU_SETSIZE];
  if (::sched_getaffinity(0, sizeof before, before) != 0 || !CPU_ISSET_S(cpu, sizeof before, before)) return false;
  CPU_ZERO_S(sizeof there, there);
  CPU_SET_S(cpu, sizeof there, there);
  if (::sched_setaffinity(0, sizeof there, there) != 0) return false;
  return ::sched_setaffinity(0, sizeof before, before) == 0;
}

}  // namespace unisono
