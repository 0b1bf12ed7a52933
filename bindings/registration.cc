#include "registration.h"

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

namespace unisono::python {

PyRegistration::PyRegistration(const Group& group, nb::handle object) {
  array_.import(object, Access::write, Elements::bytes, "register", "array");
  if (array_.staged()) refuse("register: array is not contiguous; give a contiguous one, or the array it is a view of");
  bytes_ = array_.count();
  registration_ = group.register_buffer(array_.data(), static_cast<std::size_t>(bytes_));
}

void PyRegistration::release() noexcept {
  registration_.release();  // before the array: its memory must still be there
  array_.release();
}

void register_registration(nb::module_& m) {
  nb::class_<PyRegistration>(m, "Registration",
                             "An array whose memory the other ranks on this host can reach, from Group.register.\n\n"
                             "It lasts until release(), or until the group is destroyed, also when nothing refers to "
                             "it; as a context manager\nit is released at the end.")
      .def("release", &PyRegistration::release,
           "Give the array private memory again, with what it contains.\n\n"
           "No operation may be using it, and no thread write to it. A second release does nothing, nor does one in a\n"
           "forked child.")
      .def_prop_ro("shared", &PyRegistration::shared,
                   "Whether other ranks can reach it now. False after release(), where ranks do not share memory, and "
                   "for an array\nthat covers no whole page.")
      .def_prop_ro("nbytes", &PyRegistration::bytes, "The array's size in bytes.")
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Registration"))
      .def(
          "__exit__", [](PyRegistration& self, nb::handle, nb::handle, nb::handle) { self.release(); },
          nb::arg("type").none(), nb::arg("value").none(), nb::arg("traceback").none(),
          nb::sig("def __exit__(self, type: object, value: object, traceback: object, /) -> None"))
      .def("__repr__", [](const PyRegistration& self) {
        return "<unisono.Registration: " + std::to_string(self.bytes()) + " bytes, " +
               (self.released() ? "released"
                : self.shared() ? "shared"
                                : "not shared") +
               ">";
      });
}

}  // namespace unisono::python
