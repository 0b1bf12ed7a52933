#pragma once
/// The interpreter's lock (GIL): released while C++ blocks, taken where C++ needs Python.
///
/// Before Python 3.14 a daemon thread that asks for the lock of an interpreter that is ending is
/// ended by pthread_exit. That unwinds its stack, and C++ ends the process where a function on it
/// is noexcept or catches everything. Such a thread waits here instead, until the process has
/// ended.

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

namespace unisono::python {

/// Calls `f`, which may run Python code or take the lock. A thread that is ended within it waits
/// here for ever.
template <class F>
decltype(auto) call_interpreter(F&& f) {
  try {
    return f();
  } catch (const abi::__forced_unwind&) {  // passed on, it would end the process; swallowed, too
    for (;;) ::pause();
  }
}

/// The calling thread has the lock at first and at the end.
class GilReleased {
 public:
  GilReleased() noexcept : state_(PyEval_SaveThread()) {}
  ~GilReleased() {
    call_interpreter([this] { PyEval_RestoreThread(state_); });
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

/// Any thread, whether it has the lock or not.
class GilHeld {
 public:
  GilHeld() : state_(call_interpreter([] { return PyGILState_Ensure(); })) {}
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  PyGILState_STATE state_;
};

}  // namespace unisono::python
