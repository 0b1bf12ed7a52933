#include "core.h"

NB_MODULE(_core, m) {
  m.attr("__doc__") = "unisono._core: the C++ library. Use it through the package unisono.";
  m.attr("__version__") = unisono::version();
  // A world that a script keeps in a global is still there when the interpreter ends; that is no leak worth a warning.
  nanobind::set_leak_warnings(false);
  unisono::python::register_errors(m);
  unisono::python::register_types(m);
  unisono::python::register_config(m);
  unisono::python::register_store(m);
  unisono::python::register_work(m);
  unisono::python::register_registration(m);
  unisono::python::register_group(m);
}
