#pragma once
/// One rank's process: how it is started, and what its end means.

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/status.h"

namespace unisono::cli {

/// Everything that is the same, or prepared, before a process is started. Descriptors are the caller's.
struct ProcessSetup {
  std::string program;                      ///< path of the file
  std::vector<std::string> arguments;       ///< argv, with the name
  std::vector<std::string> environment;     ///< NAME=VALUE
  int input = -1, output = -1, error = -1;  ///< become 0, 1 and 2
  bool own_session = false;                 ///< not only a process group of its own: may read a terminal then
  int inherited = -1;                       ///< let through exec under its own number (the secret)
  sigset_t signal_mask{};
  rlimit open_files{};  ///< what the launcher had before it raised its own
};

struct Process {
  pid_t pid = -1;
  Fd pidfd;
};

/// Start it in a process group of its own; it is killed when the calling thread's process ends. Returns once the program
/// runs, or with the reason why it does not.
Result<Process> start_process(const ProcessSetup& setup);

/// How a process ended.
struct Ending {
  int status = 0;  ///< exit status, or signal number
  bool by_signal = false;
  bool dumped = false;
  bool ok() const noexcept { return !by_signal && status == 0; }
  int exit_status() const noexcept { return by_signal ? 128 + status : status; }
  friend bool operator==(const Ending&, const Ending&) = default;
};
/// "exited with status 3", "killed by signal 11 (SIGSEGV, core dumped)".
std::string to_string(const Ending& ending);
/// "SIGTERM"
std::string signal_name(int signal);
/// How it ended, or nothing when it runs; it stays a zombie, so that its process id and group stay its own.
std::optional<Ending> ending_of(const Process& process);

/// Kill and reap every child of this process, those that it adopted included, waiting at most a moment.
void end_all_children();

}  // namespace unisono::cli
