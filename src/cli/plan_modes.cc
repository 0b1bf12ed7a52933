/// Which options of `unisono plan` go together.

#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "cli/plan_options.h"

namespace unisono::cli {

namespace {

/// What the option `chosen` lets the command do, and the options that say more about it.
struct Mode {
  std::string_view chosen;
  std::vector<std::string_view> takes;
};

const std::vector<Mode>& modes() {
  static const std::vector<Mode> all{
      {"--list", {"--json"}},
      {"--verify-all", {"--max", "--threads", "--json"}},
      {"--simulate",
       {"collective", "--ranks", "--algorithm", "--root", "--sizes", "--bytes", "--per-host", "--hosts", "--nodes",
        "--slice", "--how", "--json"}},
      {"--explain",
       {"collective", "--ranks", "--root", "--bytes", "--memory", "--place", "--hosts", "--per-host", "--nodes",
        "--cores", "--json"}},
      // Neither of them: plans are shown, drawn or proved.
      {"",
       {"collective", "--ranks", "--algorithm", "--root", "--rank", "--verify", "--draw", "--json", "--hosts",
        "--per-host", "--nodes", "--bytes", "--memory", "--place", "--cores"}},
  };
  return all;
}

/// Pairs that ask for two things at once.
constexpr std::pair<std::string_view, std::string_view> kContradict[] = {
    {"--draw", "--json"}, {"--draw", "--rank"}, {"--verify", "--rank"}, {"--sizes", "--bytes"}};

}  // namespace

void check_options(const CLI::App& command) {
  std::vector<std::string> given;
  for (const CLI::Option* option : command.get_options())
    if (option->count() > 0 && option->get_name() != "--help")
      given.push_back(option->get_lnames().empty() ? option->get_name() : "--" + option->get_lnames().front());
  const auto has = [&](std::string_view name) { return std::ranges::find(given, name) != given.end(); };
  const auto mode = std::ranges::find_if(modes(), [&](const Mode& m) { return m.chosen.empty() || has(m.chosen); });
  std::vector<std::string_view> useless;
  for (const std::string& name : given)
    if (name != mode->chosen && std::ranges::find(mode->takes, name) == mode->takes.end()) useless.push_back(name);
  if (!useless.empty())
    throw UsageError(fmt::format("{} has no use for {}; it takes {}",
                                 mode->chosen.empty() ? "showing a plan" : mode->chosen, fmt::join(useless, ", "),
                                 fmt::join(mode->takes, ", ")));
  for (const auto& [one, other] : kContradict)
    if (has(one) && has(other)) throw UsageError(fmt::format("{} or {}: give one of them", one, other));
}

}  // namespace unisono::cli
