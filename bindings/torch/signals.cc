/// Ctrl-C while C++ waits: Python runs signal handlers in the main thread only, so a thread that waits here has to ask.

#include <torch/csrc/utils/pybind.h>

#include "errors.h"

namespace unisono::torch_backend {

bool python_interrupted() noexcept {
  if (Py_IsInitialized() == 0) return false;
  const pybind11::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

void throw_python_error() {
  if (Py_IsInitialized() == 0) return;
  const pybind11::gil_scoped_acquire acquire;
  // Ctrl-C reaches all ranks, and the first one to react makes the others' calls fail: their handlers have yet to run.
  if (PyErr_Occurred() != nullptr || PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

LetPythonGo::LetPythonGo() noexcept
    : state_(Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr) {}

LetPythonGo::~LetPythonGo() {
  if (state_ != nullptr) PyEval_RestoreThread(state_);
}

void check_signals() {
  if (python_interrupted()) throw_python_error();
}

}  // namespace unisono::torch_backend
