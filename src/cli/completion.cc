/// `unisono completion`: what shells need to complete the command's words, made of the options as
/// they are.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

#include "cli/arguments.h"

namespace unisono::cli {
namespace {

/// What may follow an option.
struct Value {
  bool any = false;  ///< it takes one
  bool file = false, folder = false;
  std::vector<std::string> words;  ///< one of these
};

Value value_of(const CLI::Option& option) {
  Value value;
  value.any = option.get_items_expected_max() > 0;
  const std::string type = option.get_type_name();  // "TEXT:{auto,none}"
  value.file = type.starts_with("FILE");
  value.folder = type.starts_with("DIR");
  const auto begin = type.find('{'), end = type.find('}');
  if (begin != std::string::npos && end != std::string::npos && begin < end)
    for (const auto& word : CLI::detail::split(type.substr(begin + 1, end - begin - 1), ','))
      value.words.push_back(word);
  return value;
}

/// The first clause of a description, without what shells would take for syntax.
std::string short_text(std::string text) {
  text = text.substr(0, text.find_first_of(";:("));
  std::erase_if(text, [](char c) { return c == '\'' || c == '[' || c == ']' || c == '`' || c == '\\'; });
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::vector<const CLI::App*> subcommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

std::vector<const CLI::Option*> visible(const CLI::App& command) {
  std::vector<const CLI::Option*> options;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty()) options.push_back(option);
  return options;
}

std::string bash(const CLI::App& app) {
  std::string values, words;
  for (const CLI::App* command : subcommands(app)) {
    std::vector<std::string> all = options_of(*command);
    for (const CLI::Option* option : visible(*command)) {
      const Value value = value_of(*option);
      if (option->get_positional()) all.insert(all.end(), value.words.begin(), value.words.end());
      if (!value.any || option->get_positional()) continue;
      for (const auto& name : names_of(*option))
        values += fmt::format(
            "    \"{} {}\") {} return ;;\n", command->get_name(), name,
            value.file     ? "COMPREPLY=($(compgen -f -- \"$cur\"));"
            : value.folder ? "COMPREPLY=($(compgen -d -- \"$cur\"));"
                           : fmt::format("COMPREPLY=($(compgen -W \"{}\" -- \"$cur\"));", fmt::join(value.words, " ")));
    }
    words += fmt::format("    {}) words=\"{}\" ;;\n", command->get_name(), fmt::join(all, " "));
  }
  return fmt::format(R"(# bash completion for unisono: source <(unisono completion bash)
_unisono() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command=${{COMP_WORDS[1]}} words i
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{} {}" -- "$cur"))
    return
  fi
  for ((i = 2; i < COMP_CWORD; i++)); do  # behind --: the program and its arguments
    [ "${{COMP_WORDS[i]}}" = -- ] || continue
    if declare -F _command_offset >/dev/null; then
      _command_offset $((i + 1))
    elif [ $((i + 1)) -eq "$COMP_CWORD" ]; then
      COMPREPLY=($(compgen -c -- "$cur"))
    else
      COMPREPLY=($(compgen -f -- "$cur"))
    fi
    return
  done
  if [ "$cur" = = ]; then cur=; elif [ "$prev" = = ]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  case "$command $prev" in
{}  esac
  case "$command" in
{}  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}}
complete -o default -F _unisono unisono
)",
                     fmt::join(commands_of(app), " "), fmt::join(options_of(app), " "), values, words);
}

std::string zsh(const CLI::App& app) {
  std::string commands, cases;
  for (const CLI::App* command : subcommands(app)) {
    commands += fmt::format("    '{}:{}'\n", command->get_name(), short_text(command->get_description()));
    cases += fmt::format("    {})\n      _arguments", command->get_name());
    for (const CLI::Option* option : visible(*command)) {
      const Value value = value_of(*option);
      if (option->get_positional()) {
        if (command->get_name() != "run")
          cases += fmt::format(" \\\n        '1::{}:({})'", option->get_name(), fmt::join(value.words, " "));
        continue;
      }
      const std::string after = !value.any     ? ""
                                : value.file   ? ":file:_files"
                                : value.folder ? ":folder:_directories"
                                               : fmt::format(":value:({})", fmt::join(value.words, " "));
      for (const auto& name : names_of(*option))
        cases += fmt::format(" \\\n        '{}[{}]{}'", name, short_text(option->get_description()), after);
    }
    if (command->get_name() == "run") cases += " \\\n        '(-)1:program:_command_names -e' '*::arguments:_normal'";
    cases += " ;;\n";
  }
  return fmt::format(R"(#compdef unisono
# zsh completion for unisono: source <(unisono completion zsh)
_unisono() {{
  local -a commands
  commands=(
{}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    compadd -- {}
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in
{}  esac
}}
if [ "$funcstack[1]" = _unisono ]; then _unisono "$@"; else compdef _unisono unisono; fi
)",
                     commands, fmt::join(options_of(app), " "), cases);
}

std::string fish(const CLI::App& app) {
  std::string text = "# fish completion for unisono: unisono completion fish | source\n";
  text += "complete -c unisono -f -n __fish_use_subcommand -l help -s h -d 'list commands and options'\n";
  text += "complete -c unisono -f -n __fish_use_subcommand -l version -d 'print the version'\n";
  for (const CLI::App* command : subcommands(app)) {
    const std::string name = command->get_name();
    text += fmt::format("complete -c unisono -f -n __fish_use_subcommand -a {} -d '{}'\n", name,
                        short_text(command->get_description()));
    const std::string here = fmt::format("complete -c unisono -n '__fish_seen_subcommand_from {}'", name);
    if (name != "run") text += here + " -f\n";  // what `run` starts may be a file
    for (const CLI::Option* option : visible(*command)) {
      const Value value = value_of(*option);
      const std::string words = value.words.empty() ? "" : fmt::format(" -a '{}'", fmt::join(value.words, " "));
      if (option->get_positional()) {
        if (!words.empty()) text += here + words + "\n";
        continue;
      }
      text += here;
      for (const auto& one : option->get_snames()) text += " -s " + one;
      for (const auto& one : option->get_lnames()) text += " -l " + one;
      if (value.any) text += value.file || value.folder ? " -r -F" : " -x" + words;
      text += fmt::format(" -d '{}'\n", short_text(option->get_description()));
    }
  }
  return text;
}

}  // namespace

void add_completion(CLI::App& app, int& status) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "print what a shell needs to complete this command's words");
  command->add_option("shell", *shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(R"(Examples, for a line in the shell's start-up file:
  source <(unisono completion bash)        ~/.bashrc
  source <(unisono completion zsh)         ~/.zshrc, behind compinit
  unisono completion fish | source         ~/.config/fish/config.fish)");
  command->callback([&app, shell, &status] {
    const std::string text = *shell == "bash" ? bash(app) : *shell == "zsh" ? zsh(app) : fish(app);
    status = std::fputs(text.c_str(), stdout) < 0 ? 1 : 0;
  });
}

}  // namespace unisono::cli
