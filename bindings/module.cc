#include "core.h"

// nanobind's own entry, which changes what it keeps for the process, under another name:
// PyInit__core checks first.
#define PyInit__core PyInit__core_unchecked

NB_MODULE(_core, m) {
  m.attr("__doc__") = "unisono._core: the C++ library. Use it through the package unisono.";
  m.attr("__version__") = unisono::version();
  // A world that a script keeps in a global is still there when the interpreter ends; that is no leak worth a warning.
  nanobind::set_leak_warnings(false);
  unisono::python::register_errors(m);
  unisono::python::register_types(m);
  unisono::python::register_config(m);
  unisono::python::register_store(m);
  unisono::python::register_joining(m);
  unisono::python::register_work(m);
  unisono::python::register_completions(m);
  unisono::python::register_registration(m);
  unisono::python::register_group(m);
  unisono::python::register_objects(m);
}

#undef PyInit__core

/// Classes, signal handlers and threads here belong to the main interpreter alone.
extern "C" NB_EXPORT PyObject* PyInit__core() {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) return PyInit__core_unchecked();
  PyErr_SetString(PyExc_ImportError,
                  "unisono: this is a subinterpreter, and unisono works in the main interpreter of a process only. "
                  "Import it there, or use processes (multiprocessing, `unisono run`)");
  return nullptr;
}
