#include "numbers.h"

#include <complex>

#include "operation.h"

namespace unisono::python {
namespace {

bool is_numpy_scalar(nb::handle x) {
  // Arrays have something to assign to, which is faster to see than NumPy's types.
  return PyType_GetSlot(Py_TYPE(x.ptr()), Py_mp_ass_subscript) == nullptr && nb::hasattr(x, "dtype") &&
         nb::isinstance(x, nb::module_::import_("numpy").attr("generic"));
}

/// Run with one element at `value`.
template <class T>
T run_on(Operation& o, DType dtype, T value, bool has_result) {
  o.call.dtype = dtype;
  o.call.count = 1;
  o.call.input = &value;
  o.call.output = has_result ? &value : nullptr;
  o.run();
  return value;
}

nb::object run_on_number(Operation& o, nb::handle x, bool has_result) {
  if (PyFloat_Check(x.ptr()) != 0) return nb::float_(run_on(o, DType::f64, PyFloat_AsDouble(x.ptr()), has_result));
  if (PyComplex_Check(x.ptr()) != 0) {
    const std::complex<double> value(PyComplex_RealAsDouble(x.ptr()), PyComplex_ImagAsDouble(x.ptr()));
    const auto result = run_on(o, DType::c128, value, has_result);
    return nb::steal(PyComplex_FromDoubles(result.real(), result.imag()));
  }
  int overflow = 0;
  const std::int64_t value = PyLong_AsLongLongAndOverflow(x.ptr(), &overflow);
  if (overflow != 0)
    refuse(o.name, ": x is an integer beyond 64 bits; give a float, or send it with all_gather_object");
  return nb::int_(run_on(o, DType::i64, value, has_result));
}

}  // namespace

bool is_number(nb::handle x) {
  return PyLong_Check(x.ptr()) != 0 || PyFloat_Check(x.ptr()) != 0 || PyComplex_Check(x.ptr()) != 0 ||
         is_numpy_scalar(x);
}

nb::object reduce_number(const PyGroup& self, Collective collective, const char* name, nb::handle x, int root,
                         nb::handle op, nb::handle out, bool async_op, nb::handle timeout, nb::handle algorithm) {
  if (async_op || !out.is_none())
    refuse(name, ": x is a number (a ", type_of(x),
           "), whose result is returned; out and async_op=True need an array to write to");
  Operation o(self, name, timeout, algorithm);
  o.call.collective = collective;
  o.call.op = parse_op(op, name);
  o.call.root = root;
  const bool has_result = collective == Collective::all_reduce || o.group.rank() == root;
  nb::object result;
  if (is_numpy_scalar(x)) {
    const nb::object array = nb::module_::import_("numpy").attr("array")(x);
    if (has_result)
      o.in_place(array);
    else
      o.read(array);
    o.call.count = 1;
    o.bind_buffers();
    o.run();
    result = array[nb::tuple()];
  } else {
    result = run_on_number(o, x, has_result);
  }
  return has_result ? result : nb::none();
}

}  // namespace unisono::python
