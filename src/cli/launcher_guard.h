#pragma once
/// A small process that outlives the launcher by a moment: when the launcher is killed, it kills the ranks' process groups.
///
/// Each rank asks the kernel for a SIGKILL when the launcher dies, but what a rank has started (a shell's program, data
/// loaders) is not told. The guard waits for the end of a pipe that only the launcher can write to.

#include <sys/types.h>

#include "base/fd.h"
#include "base/status.h"

namespace unisono::cli {

/// Thread-safety: none.
class Guard {
 public:
  /// Forks; call it while the process has one thread.
  static Result<Guard> start();
  Guard(Guard&& other) noexcept : pipe_(std::move(other.pipe_)), pid_(std::exchange(other.pid_, -1)) {}
  Guard& operator=(Guard&&) = delete;
  ~Guard() { dismiss(); }

  /// Kill this process group when the launcher dies.
  void watch(pid_t group) noexcept;
  /// The job has ended in order: the guard goes away and touches nobody.
  void dismiss() noexcept;
  pid_t pid() const noexcept { return pid_; }

 private:
  Guard(Fd pipe, pid_t pid) : pipe_(std::move(pipe)), pid_(pid) {}
  Fd pipe_;
  pid_t pid_;
};

}  // namespace unisono::cli
