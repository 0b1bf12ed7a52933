#include "interrupt.h"

#include <unistd.h>

namespace unisono::python {

namespace {

/// Python runs signal handlers in its main thread only: the process's first one, a forked child's
/// only one, or, where Python is embedded, the one that imported this module. A daemon thread must
/// not ask: the interpreter may be ending.
const pid_t importer = ::gettid();

bool may_run_handlers() noexcept {
  const pid_t self = ::gettid();
  return self == ::getpid() || self == importer;
}

void add_note(nb::handle exception, const char* text) noexcept {
  try {
    if (nb::hasattr(exception, "add_note")) exception.attr("add_note")(text);
  } catch (const std::exception&) {  // an exception of an unusual class; it is raised all the same
  }
}

/// Throws what a handler raised, with `text` as a note (Python 3.11).
[[noreturn]] void throw_raised(const char* text) {
  nb::python_error raised;
  add_note(raised.value(), text);
  raised.restore();
  throw nb::python_error();
}

}  // namespace

bool interrupted() noexcept {
  if (!may_run_handlers()) return false;
  const GilHeld acquire;
  return PyErr_CheckSignals() != 0;
}

bool is_only_thread() noexcept {
  if (!may_run_handlers()) return false;
  const GilHeld acquire;
  try {
    return nb::len(nb::module_::import_("sys").attr("_current_frames")()) == 1;
  } catch (const std::exception&) {  // out of memory: then nobody knows
    return false;
  }
}

void rethrow() {
  if (PyErr_Occurred() == nullptr) throw;
  try {
    throw;
  } catch (const std::exception& e) {
    throw_raised(e.what());
  }
}

void check_raised(const char* outcome) {
  if (PyErr_Occurred() != nullptr) throw_raised(outcome);
}

}  // namespace unisono::python
