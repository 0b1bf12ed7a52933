/// The command `unisono`.

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

#include "cli/commands.h"

namespace {

/// A standard descriptor that is closed would be the next file's that is opened, and take what is meant for the user.
/// In its place comes one that refuses as a closed one does.
void keep_closed_ones_apart() {
  for (int fd = 0; fd < 3; fd++)
    if (::fcntl(fd, F_GETFD) < 0) (void)!::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
}

}  // namespace

int main(int argc, char** argv) {
  keep_closed_ones_apart();
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
