#include "rendezvous/ancestors.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>
#include <utility>

#include "rendezvous/process_stat.h"

namespace unisono::rendezvous {
namespace {

constexpr int kMaxDepth = 64;

std::optional<std::string> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (file.bad()) return std::nullopt;
  return text;
}

std::optional<std::map<std::string, std::string>> environment_of(std::int64_t pid) {
  const auto text = contents(fmt::format("/proc/{}/environ", pid));
  if (!text) return std::nullopt;
  std::map<std::string, std::string> variables;
  for (std::string_view rest = *text; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    const auto equals = entry.find('=');
    if (equals != std::string_view::npos)
      variables.try_emplace(std::string(entry.substr(0, equals)), entry.substr(equals + 1));
  }
  return variables;
}

/// The process `pid` and its parent; nothing when it is gone or out of sight.
std::optional<std::pair<Ancestor, std::int64_t>> look_at(std::int64_t pid) {
  auto stat = process_stat(pid);
  if (!stat) return std::nullopt;
  Ancestor a{pid, stat->start_time, std::move(stat->name), environment_of(pid)};
  return std::pair{std::move(a), stat->parent};
}

}  // namespace

Ancestry process_ancestry() {
  return [] {
    std::vector<Ancestor> found;
    for (std::int64_t pid = ::getppid(); pid > 0 && found.size() < kMaxDepth;) {
      auto seen = look_at(pid);
      if (!seen) break;
      found.push_back(std::move(seen->first));
      pid = seen->second;
    }
    return found;
  };
}

}  // namespace unisono::rendezvous
