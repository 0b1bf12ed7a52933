#include <nanobind/stl/string.h>

#include <cmath>
#include <cstdio>
#include <limits>

#include "core.h"

namespace unisono::python {
namespace {

std::string names_of_ops() {
  std::string names;
  for (int i = 0; i < kReduceOps; i++)
    names += std::string(i ? ", " : "") + std::string(name_of(static_cast<ReduceOp>(i)));
  return names;
}

}  // namespace

std::string text_of(nb::handle object) {
  const nb::str text(object);
  return text.c_str();
}

std::string text_of(Duration duration) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", std::chrono::duration<double>(duration).count());
  return text;
}

std::string type_of(nb::handle object) {
  const nb::object type = nb::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
  const auto module = text_of(type.attr("__module__"));
  const auto name = text_of(type.attr("__qualname__"));
  return module == "builtins" ? name : module + "." + name;
}

ReduceOp parse_op(nb::handle op, const char* operation) {
  if (PyUnicode_Check(op.ptr())) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(op.ptr(), &size);
    if (text == nullptr) throw nb::python_error();
    if (const auto found = reduce_op_from_name({text, static_cast<std::size_t>(size)})) return *found;
    refuse(operation, ": op '", text, "' is not one of ", names_of_ops());
  }
  ReduceOp value{};
  if (nb::try_cast(op, value, false)) return value;
  refuse(operation, ": op is a ", type_of(op), "; give a ReduceOp or one of the names ", names_of_ops());
}

std::optional<Duration> parse_timeout(nb::handle timeout, const char* operation) {
  if (timeout.is_none()) return std::nullopt;
  double seconds = 0;
  if (nb::hasattr(timeout, "total_seconds"))
    seconds = nb::cast<double>(timeout.attr("total_seconds")());
  else if (PyLong_Check(timeout.ptr()) != 0 && !nb::try_cast(timeout, seconds))  // no double holds it
    seconds = nb::cast<bool>(timeout < nb::int_(0)) ? -1 : std::numeric_limits<double>::infinity();
  else if (PyLong_Check(timeout.ptr()) == 0 && !nb::try_cast(timeout, seconds))
    refuse(operation, ": timeout is a ", type_of(timeout), "; give seconds or a timedelta");
  if (std::isnan(seconds) || seconds < 0) refuse(operation, ": timeout is ", seconds, " s; it must not be negative");
  constexpr double kLongest =
      100.0 * 365 * 86400;  // a hundred years: as good as none, and far from overflowing nanoseconds
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(std::min(seconds, kLongest)));
}

void register_types(nb::module_& m) {
  nb::enum_<ReduceOp>(
      m, "ReduceOp",
      "How elements are combined. Wherever one is expected its name does as well: op=\"max\".\n\n"
      "avg is the sum divided once by the number of ranks, not for bool; of integers the sum wraps as in sum, and the\n"
      "quotient is truncated towards zero (-3 / 2 is -1), as NCCL does. min and max propagate NaN\n"
      "whichever rank holds it; band, bor and bxor are for integers and bool.")
      .value("sum", ReduceOp::sum)
      .value("avg", ReduceOp::avg)
      .value("product", ReduceOp::product)
      .value("min", ReduceOp::min)
      .value("max", ReduceOp::max)
      .value("band", ReduceOp::band)
      .value("bor", ReduceOp::bor)
      .value("bxor", ReduceOp::bxor);

  nb::class_<Received>(m, "Received", "What a recv got.")
      .def_ro("source", &Received::source, "The rank that sent it.")
      .def_ro("tag", &Received::tag, "The tag it was sent with.")
      .def_ro("bytes", &Received::bytes, "How many bytes it had; the rest of the buffer is as it was.")
      .def("__repr__", [](const Received& r) {
        return "Received(source=" + std::to_string(r.source) + ", tag=" + std::to_string(r.tag) +
               ", bytes=" + std::to_string(r.bytes) + ")";
      });

  m.attr("ANY_RANK") = kAnyRank;
  m.attr("NULL_RANK") = kNullRank;
  m.attr("ANY_TAG") = kAnyTag;
}

}  // namespace unisono::python
