/// The Python module unisono.torch._backend.

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include "backend.h"
#include "flight_record_python.h"

namespace py = pybind11;

namespace unisono::torch_backend {
namespace {

using BackendPtr = c10::intrusive_ptr<Backend>;
using OptionsPtr = c10::intrusive_ptr<Backend::Options>;

BackendPtr make_backend(const std::shared_ptr<Worlds>& worlds, const c10::intrusive_ptr<c10d::Store>& store, int rank,
                        int size, const OptionsPtr& options) {
  const py::gil_scoped_release release;
  return c10::make_intrusive<Backend>(worlds, store, rank, size, options);
}

void bind_options(const py::module_& module) {
  py::class_<Backend::Options, OptionsPtr>(
      module, "Options", py::module_::import("torch._C._distributed_c10d").attr("Backend").attr("Options"),
      "Options of a process group.")
      .def(py::init<std::chrono::milliseconds>(), py::arg("timeout") = kBackendDefaultTimeout)
      .def("__copy__", [](const Backend::Options& o) { return c10::make_intrusive<Backend::Options>(o); })
      .def("__deepcopy__",
           [](const Backend::Options& o, const py::dict&) { return c10::make_intrusive<Backend::Options>(o); });
}

void bind_memory(py::module_& module) {
  py::class_<AllocationScope>(module, "AllocationScope", "Directs this thread's CPU allocations to shared memory.")
      .def(py::init([](const BackendPtr& backend, std::size_t least) {
             return std::make_unique<AllocationScope>(backend->memory(), least);
           }),
           py::arg("backend"), py::arg("least"))
      .def("open", &AllocationScope::open)
      .def("close", &AllocationScope::close);
  module.def("is_shared", &is_shared, py::arg("tensor"));
}

}  // namespace

PYBIND11_MODULE(_backend, module) {
  module.attr("TORCH_VERSION") = TORCH_VERSION;
  const py::module_ c10d = py::module_::import("torch._C._distributed_c10d");
  py::class_<Worlds, std::shared_ptr<Worlds>>(module, "Worlds")
      .def(py::init<>())
      .def("flight_record", [](const Worlds& worlds) { return to_python(*worlds.record()); })
      .def(
          "forked", [](const Worlds& worlds) { worlds.adopter()->forked(); }, py::call_guard<py::gil_scoped_release>())
      .def("leave", &Worlds::leave, py::arg("reason"), py::call_guard<py::gil_scoped_release>());
  bind_options(module);
  bind_memory(module);
  py::class_<Backend, BackendPtr>(module, "Backend", c10d.attr("Backend"))
      .def(py::init(&make_backend), py::arg("worlds"), py::arg("store"), py::arg("rank"), py::arg("size"),
           py::arg("options"))
      .def_property_readonly("options", &Backend::options)
      .def_property_readonly("transport", &Backend::transport)
      .def("abort_because", &Backend::abort_because, py::arg("reason"), py::call_guard<py::gil_scoped_release>())
      .def("get_error", [](Backend& b) { return static_cast<int>(b.getError()); });
}

}  // namespace unisono::torch_backend
