/// Ctrl-C while C++ waits: Python runs signal handlers in the main thread only, so a thread that waits here has to ask.

#include <torch/csrc/utils/pybind.h>
#include <unistd.h>

#include "errors.h"

namespace unisono::torch_backend {

namespace {
/// Handlers run in Python's main thread only: the process's first, or the one that imported this.
const pid_t importer = ::gettid();
bool in_main_thread() noexcept {
  const pid_t self = ::gettid();
  return self == ::getpid() || self == importer;
}
}  // namespace

bool python_interrupted() noexcept {
  if (!in_main_thread()) return false;  // nor must a daemon thread ask: the interpreter may be ending
  if (Py_IsInitialized() == 0) return false;
  const pybind11::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

bool is_only_python_thread() noexcept {
  if (!in_main_thread() || Py_IsInitialized() == 0) return false;
  const pybind11::gil_scoped_acquire acquire;
  try {
    return pybind11::len(pybind11::module_::import("sys").attr("_current_frames")()) == 1;
  } catch (const std::exception&) {  // out of memory: then nobody knows
    return false;
  }
}

void throw_python_error() {
  if (!in_main_thread() || Py_IsInitialized() == 0) return;
  const pybind11::gil_scoped_acquire acquire;
  // Ctrl-C reaches all ranks, and the first one to react makes the others' calls fail: their
  // handlers have yet to run.
  if (PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

bool is_beside_python() noexcept { return !in_main_thread() && Py_IsInitialized() != 0 && PyGILState_Check() == 0; }

void stay() noexcept {
  while (true) ::pause();
}

LetPythonGo::LetPythonGo() noexcept
    : state_(Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {}

LetPythonGo::~LetPythonGo() {
  if (state_ != nullptr) PyEval_RestoreThread(state_);
}

}  // namespace unisono::torch_backend
