#include "errors.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace unisono::python {
namespace {

// The classes are Python (python/unisono/errors.py), where a reader and a type checker look for them.
template <class... Args>
nb::object make(const char* name, const Args&... args) {
  return call_interpreter([&] { return nb::object(nb::module_::import_("unisono.errors").attr(name)(args...)); });
}

nb::object to_python(const Error& error) {
  const std::string message = error.what();
  if (const auto* e = dynamic_cast<const InvalidArgument*>(&error)) return make("InvalidArgument", e->what());
  if (const auto* e = dynamic_cast<const RankFailure*>(&error))
    return make("RankFailure", message, e->rank, e->host, e->pid);
  if (const auto* e = dynamic_cast<const Mismatch*>(&error)) return make("Mismatch", message, e->rank, e->other);
  if (const auto* e = dynamic_cast<const Timeout*>(&error)) return make("Timeout", message, e->missing);
  if (const auto* e = dynamic_cast<const SystemError*>(&error)) return make("SystemError", message, e->code);
  if (const auto* e = dynamic_cast<const AuthenticationError*>(&error)) return make("AuthenticationError", e->what());
  if (const auto* e = dynamic_cast<const Aborted*>(&error)) return make("Aborted", e->what());
  return make("Error", message);
}

/// A signal whose handler has yet to run: Ctrl-C reaches all ranks of a job, and the first one to
/// react makes the others' calls fail. Then their own KeyboardInterrupt is the news, and printing
/// another error would be interrupted by it.
bool signal_handler_raised(const Error& error) {
  if (PyErr_CheckSignals() == 0) return false;
  if (dynamic_cast<const Aborted*>(&error) != nullptr || dynamic_cast<const RankFailure*>(&error) != nullptr)
    return true;
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  try {
    PyException_SetContext(value, to_python(error).release().ptr());
  } catch (nb::python_error&) {  // the signal alone is told
  }
  PyErr_Restore(type, value, traceback);
  return true;
}

void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    if (signal_handler_raised(e)) return;
    try {
      const nb::object instance = to_python(e);
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(instance.ptr())), instance.ptr());
    } catch (nb::python_error& broken) {  // the package is damaged: say that rather than lose the error
      broken.restore();
    }
  }  // any other type goes on to nanobind's own translators
}

}  // namespace

nb::object to_python(const std::exception_ptr& error) {
  if (!error) return nb::none();
  try {
    std::rethrow_exception(error);
  } catch (const Error& e) {
    return to_python(e);
  } catch (const std::exception& e) {
    return make("Error", std::string(e.what()));
  }
}

void register_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace unisono::python
