#pragma once
/// Ctrl-C while C++ blocks. Python runs its signal handlers in the main thread only, between bytecodes; a thread that
/// waits in C++ has to ask now and then.

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "core.h"

namespace unisono::python {

/// How long C++ waits before it asks Python again: short for a hand on Ctrl-C, long for a processor.
inline constexpr Duration kAskEvery = std::chrono::milliseconds(100);

/// For Options::interrupted: runs Python's signal handlers; true when one raised, and the exception is then set in this
/// thread.
bool interrupted() noexcept;

/// For Config::only_thread: whether this is the main thread, and Python knows of no other.
bool is_only_thread() noexcept;

/// Throws the exception that a signal handler raised, if one did. GIL held.
inline void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

/// In a catch block of a call that asked interrupted(): throws on. An exception that a signal
/// handler raised wins over what the call threw because of it, whose message becomes a note to it
/// (Python 3.11). GIL held.
[[noreturn]] void rethrow();

/// After such a call has succeeded: throws what a signal handler raised at the last moment, with
/// `outcome` as a note.
void check_raised(const char* outcome);

/// Run `f` (C++ that blocks and cannot be interrupted: joining a group) in a thread of its own, and wait for it with
/// the GIL released. When a signal handler raises, that exception is thrown at once; `f` goes on by itself until its
/// own deadline and its result is dropped, so it must hold no Python object and no reference to the caller's frame. GIL
/// held on entry and return.
template <class F>
auto run_interruptibly(F f) -> decltype(f()) {
  using Result = decltype(f());
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    std::optional<Result> result;
    std::exception_ptr error;
  };
  auto shared = std::make_shared<Shared>();
  std::thread worker([shared, f = std::move(f)]() mutable {
    std::optional<Result> result;
    std::exception_ptr error;
    try {
      result.emplace(f());
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(shared->mutex);
    shared->result = std::move(result);
    shared->error = error;
    shared->done = true;
    shared->changed.notify_all();
  });
  for (;;) {
    bool done = false;
    {
      const GilReleased release;
      std::unique_lock lock(shared->mutex);
      done = shared->changed.wait_for(lock, kAskEvery, [&] { return shared->done; });
    }
    if (done) break;
    if (PyErr_CheckSignals() != 0) {
      worker.detach();
      throw nb::python_error();
    }
  }
  worker.join();
  if (shared->error) std::rethrow_exception(shared->error);
  return std::move(*shared->result);
}

}  // namespace unisono::python
