/// The command `unisono`.

#include <cstdio>
#include <exception>

#include "cli/commands.h"

int main(int argc, char** argv) {
  CLI::App app{"unisono: collective communication between processes", "unisono"};
  app.require_subcommand(1);
  int status = 0;
  unisono::cli::add_run(app, status);
  unisono::cli::add_bench(app, status);
  unisono::cli::add_plan(app, status);
  unisono::cli::add_doctor(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "unisono: %s\n", e.what());
    return 1;
  }
  return status;
}
