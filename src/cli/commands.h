#pragma once
/// The subcommands of `unisono`. Each adds itself to the application with its options and examples, and leaves the exit
/// status of its run in `status`.

#include <CLI/CLI.hpp>
#include <span>

namespace unisono::cli {

/// The whole command, given its arguments without the program's name. The status to exit with.
int run_command(std::span<char* const> arguments);

void add_run(CLI::App& app, int& status);
void add_bench(CLI::App& app, int& status);
void add_plan(CLI::App& app, int& status);
void add_doctor(CLI::App& app, int& status);
void add_completion(CLI::App& app, int& status);

}  // namespace unisono::cli
