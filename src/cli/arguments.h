#pragma once
/// What a user types, before CLI11 sees it.

#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/commands.h"

namespace unisono::cli {

/// The arguments as `app` wants them, without the program's name: `-np` is `-n`, as for MPI's
/// launchers, and the program that `run` starts begins where the options end, with or without "--".
/// InvalidArgument for a command or an option that there is not, with the likeliest one.
Result<std::vector<std::string>> normalised(const CLI::App& app, std::span<char* const> arguments);

/// Which of `names` was meant by `typed`: the nearest by at most two slips, or one that it begins;
/// empty: none is near.
std::string nearest(const std::string& typed, std::span<const std::string> names);

/// The names of an option or command's options that a user may see, with their dashes.
std::vector<std::string> names_of(const CLI::Option& option);
std::vector<std::string> options_of(const CLI::App& command);
std::vector<std::string> commands_of(const CLI::App& app);

}  // namespace unisono::cli
