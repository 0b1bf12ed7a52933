#include "cli/doctor_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace unisono::cli {
namespace {

std::string_view name_of(Health health) {
  switch (health) {
    case Health::good:
      return "ok";
    case Health::note:
      return "note";
    case Health::warning:
      return "warning";
    case Health::missing:
      return "missing";
  }
  return "?";
}

std::ptrdiff_t count(const Findings& findings, Health health) {
  return std::ranges::count(findings, health, &Finding::health);
}

}  // namespace

bool anything_missing(const Findings& findings) { return count(findings, Health::missing) > 0; }

std::string to_table(const Findings& findings) {
  std::size_t width = 0;
  for (const Finding& f : findings) width = std::max(width, f.name.size());
  std::string text, group;
  for (const Finding& f : findings) {
    if (f.group != group) text += fmt::format("{}{}\n", group.empty() ? "" : "\n", f.group);
    group = f.group;
    text += fmt::format("  {:<7}  {:<{}}  {}\n", name_of(f.health), f.name, width, f.value);
    if (!f.advice.empty()) text += fmt::format("  {:<7}  {:<{}}  -> {}\n", "", "", width, f.advice);
  }
  const auto missing = count(findings, Health::missing), warnings = count(findings, Health::warning);
  return text + fmt::format("\n{}\n", missing > 0
                                          ? fmt::format("{} missing: unisono does not work here as it should", missing)
                                      : warnings > 0 ? fmt::format("everything needed is there; {} warning{}", warnings,
                                                                   warnings == 1 ? "" : "s")
                                                     : "everything is there");
}

std::string to_json(const Findings& findings) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Finding& f : findings)
    rows.push_back({{"group", f.group},
                    {"name", f.name},
                    {"health", name_of(f.health)},
                    {"value", f.value},
                    {"advice", f.advice}});
  const nlohmann::json report = {{"findings", rows},
                                 {"missing", count(findings, Health::missing)},
                                 {"warnings", count(findings, Health::warning)}};
  // Host and interface names may be any bytes.
  return report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace unisono::cli
