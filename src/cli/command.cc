#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <span>
#include <string>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "unisono/version.hpp"

namespace unisono::cli {
namespace {

constexpr int kWrongUse = 2;

/// A standard descriptor that is closed would be the next file's that is opened, and take what is
/// meant for the user. In its place comes one that refuses as a closed one does.
void keep_closed_ones_apart() {
  for (int fd = 0; fd < 3; fd++)
    if (::fcntl(fd, F_GETFD) < 0) (void)!::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

}  // namespace

int run_command(std::span<char* const> given) {
  keep_closed_ones_apart();
  CLI::App app{"unisono: collective communication between processes", "unisono"};
  app.require_subcommand(1);
  app.set_version_flag("--version", std::string("unisono ") + version(), "print the version and exit");
  int status = 0;
  add_run(app, status);
  add_bench(app, status);
  add_plan(app, status);
  add_doctor(app, status);
  add_completion(app, status);
  try {
    auto arguments = normalised(app, given);
    if (!arguments) {
      std::fprintf(stderr, "unisono: %s\n", arguments.status().message().c_str());
      return kWrongUse;
    }
    if (arguments->empty()) {
      std::fputs(app.help().c_str(), stderr);
      return kWrongUse;
    }
    std::ranges::reverse(*arguments);  // CLI11 takes them from the end
    app.parse(std::move(*arguments));
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kWrongUse;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "unisono: %s\n", e.what());
    return 1;
  }
  return status;
}

}  // namespace unisono::cli
