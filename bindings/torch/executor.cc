#include "executor.h"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace unisono::torch_backend {

struct Executor::Core {
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<std::function<void()>> jobs;
  std::condition_variable done;
  std::size_t idle = 0;
  int expected = 0;
  bool closing = false;
  std::atomic<bool> left{false};

  static void serve(const std::shared_ptr<Core>& core);
};

namespace {
thread_local const void* serving = nullptr;  // the core whose jobs this thread runs
}  // namespace

void Executor::Core::serve(const std::shared_ptr<Core>& core) {
  pthread_setname_np(pthread_self(), "unisono-calls");
  serving = core.get();
  std::unique_lock lock(core->mutex);
  for (;;) {
    core->idle++;
    const bool work = core->arrived.wait_for(lock, std::chrono::milliseconds(100),
                                             [&] { return !core->jobs.empty() || core->closing; });
    core->idle--;
    if (!work || core->jobs.empty()) return;
    std::function<void()> job = std::move(core->jobs.front());
    core->jobs.pop_front();
    lock.unlock();
    job();
    job = nullptr;  // what it held is destroyed without the lock
    lock.lock();
  }
}

Executor::Executor() : core_(std::make_shared<Core>()) {}

Executor::~Executor() {
  // The threads own the core and end by themselves: waiting for them here could wait for a callback that needs what the
  // destroying thread holds (Python's lock).
  const std::lock_guard lock(core_->mutex);
  core_->closing = true;
  core_->arrived.notify_all();
}

void Executor::expect() {
  const std::lock_guard lock(core_->mutex);
  core_->expected++;
}

void Executor::finished() noexcept {
  const std::lock_guard lock(core_->mutex);
  core_->expected--;
  core_->done.notify_all();
}

void Executor::wait(Duration patience) noexcept {
  if (serving == core_.get()) return;
  std::unique_lock lock(core_->mutex);
  core_->done.wait_for(lock, patience, [&] { return core_->expected == 0; });
}

void Executor::leave(Duration patience) noexcept {
  wait(patience);
  core_->left.store(true, std::memory_order_release);
}

bool Executor::left() const noexcept { return core_->left.load(std::memory_order_acquire); }

void Executor::post(std::function<void()> job) {
  const std::lock_guard lock(core_->mutex);
  core_->jobs.push_back(std::move(job));
  if (core_->idle >= core_->jobs.size())
    core_->arrived.notify_one();
  else
    std::thread([core = core_] { Core::serve(core); }).detach();
}

}  // namespace unisono::torch_backend
