#pragma once
/// A thread of this process that never runs, by which other processes call it.

#include <pthread.h>
#include <sys/types.h>

#include <atomic>
#include <memory>
#include <semaphore>

#include "base/status.h"

namespace unisono::transport::shm {

/// Who copies from another process's memory through the kernel names a thread of it, any one, and the kernel counts in that thread's record that somebody looks at it. If the thread runs, its core needs the
/// line of that record in each of its own calls into the kernel: where both copy from each other the two lines go to and fro, a quarter of a microsecond in each call (docs/design/0008). Nobody
/// misses the lines of one that sleeps. Thread-safety: one thread at a time.
class RestingThread {
 public:
  /// `number` becomes the thread's once it sleeps, which nobody waits for, and 0 again before it ends. It has a stack of 256 KiB, of which next to nothing is touched, and takes no signals.
  static Result<std::unique_ptr<RestingThread>> start(std::atomic<pid_t>& number);
  /// Waits until it has ended. In a forked child, which has no such thread, nothing happens.
  ~RestingThread();
  RestingThread(const RestingThread&) = delete;
  RestingThread& operator=(const RestingThread&) = delete;

 private:
  explicit RestingThread(std::atomic<pid_t>& number) noexcept;
  Status create();
  void rest();

  std::atomic<pid_t>& number_;
  const pid_t owner_;
  pthread_t thread_{};
  bool started_ = false;
  /// Not a condition variable: to destroy that is to wait for whoever waits in it, whom a forked child does not have.
  std::binary_semaphore end_{0};
};

}  // namespace unisono::transport::shm
