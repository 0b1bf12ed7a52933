#pragma once
/// Threads for what may block, and so must not run on the progress thread: callbacks of futures, copies out of staging memory.

#include <functional>
#include <memory>

namespace unisono::torch_backend {

/// Every job that is posted begins at once: an idle thread takes it, or a new one does, so that a job that blocks holds up no
/// other. Threads end after 100 ms without work: normally there are none. Jobs that were posted run even when the Executor
/// goes. Thread-safety: any thread, also from within a job.
class Executor {
 public:
  Executor();
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  void post(std::function<void()> job);

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace unisono::torch_backend
