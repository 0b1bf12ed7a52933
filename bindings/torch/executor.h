#pragma once
/// Threads for what may block, and so must not run on the progress thread: callbacks of futures,
/// copies out of staging memory.

#include <functional>
#include <memory>
#include <unisono/group.hpp>

namespace unisono::torch_backend {

/// Every job that is posted begins at once: an idle thread takes it, or a new one does, so that a
/// job that blocks holds up no other. Threads end after 100 ms without work: normally there are
/// none. Jobs that were posted run even when the Executor goes.
///
/// It counts what its threads have still to do for operations in flight. Once it is left (the
/// interpreter ends) nothing more is begun: freeing a tensor may need Python, which ends threads
/// that come to it too late. Thread-safety: any thread, also from within a job.
class Executor {
 public:
  Executor();
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Somebody will post a job later: finished() must follow, as the last thing the job does.
  void expect();
  void post(std::function<void()> job);
  void finished() noexcept;
  /// Wait until nothing is expected, `patience` at most. At once in a thread of the Executor: its
  /// job is one of those that are waited for.
  void wait(Duration patience) noexcept;
  /// The same, and begin nothing more.
  void leave(Duration patience) noexcept;
  /// Whether leave() was called.
  bool left() const noexcept;

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace unisono::torch_backend
