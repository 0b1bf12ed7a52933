#include "cli/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace unisono::cli {
namespace {

/// Letters to insert, drop, change or swap with a neighbour.
std::size_t slips(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); i++)
    for (std::size_t j = 0; j <= b.size(); j++) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

Status unknown(const std::string& kind, const std::string& typed, const std::string& where,
               const std::vector<std::string>& names) {
  const std::string meant = nearest(typed, names);
  return Status::invalid(fmt::format("there is no {} \"{}\"{}; `{} --help` lists them", kind, typed,
                                     meant.empty() ? "" : fmt::format(", did you mean \"{}\"?", meant), where));
}

}  // namespace

std::string nearest(const std::string& typed, std::span<const std::string> names) {
  const std::string* best = nullptr;
  std::size_t least = typed.size() < 4 ? 2 : 3;  // this many slips are too many
  for (const std::string& name : names)
    if (const std::size_t n = slips(typed, name); n < std::min(least, name.size())) {
      least = n;
      best = &name;
    }
  if (best == nullptr && typed.size() > 2)
    for (const std::string& name : names)
      if (name.starts_with(typed) && best == nullptr) best = &name;
  return best != nullptr ? *best : "";
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> options_of(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty())  // hidden ones have none
      std::ranges::move(names_of(*option), std::back_inserter(names));
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

Result<std::vector<std::string>> normalised(const CLI::App& app, std::span<char* const> arguments) {
  std::vector<std::string> result(arguments.begin(), arguments.end());
  const CLI::App* command = &app;
  std::string where = "unisono";
  for (std::size_t i = 0; i < result.size(); i++) {
    std::string& word = result[i];
    if (word == "--") break;
    if (word.size() < 2 || word.front() != '-') {
      if (command == &app) {
        const auto found = app.get_subcommands([&](const CLI::App* c) { return c->get_name() == word; });
        if (found.empty()) return unknown("command", word, where, commands_of(app));
        command = found.front();
        where += " " + word;
      } else if (command->get_name() == "run") {
        result.insert(result.begin() + static_cast<std::ptrdiff_t>(i), "--");
        break;
      }
      continue;
    }
    if (word == "-np" || word.starts_with("-np=")) word.insert(0, "-");
    const auto equals = word.find('=');
    std::string name = word.substr(0, equals);
    const bool attached = name.size() > 2 && name[1] != '-' && command->get_option_no_throw(name) == nullptr;
    const CLI::Option* option = command->get_option_no_throw(attached ? name.substr(0, 2) : name);
    if (option == nullptr) return unknown("option", name, where, options_of(*command));
    if (!attached && equals == std::string::npos && option->get_items_expected_max() > 0) i++;  // its value
  }
  return result;
}

}  // namespace unisono::cli
