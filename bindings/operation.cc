#include "operation.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <functional>

#include "interrupt.h"

namespace unisono::python {

Operation::Operation(const PyGroup& group_, const char* name_, nb::handle timeout, nb::handle algorithm_)
    : group(group_.handle()), name(name_), ranks(group.size()) {
  call.options.timeout = parse_timeout(timeout, name);
  call.options.interrupted = &interrupted;
  if (algorithm_.is_none()) return;
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(algorithm_.ptr(), &size);
  if (text == nullptr) {
    PyErr_Clear();
    refuse(name, ": algorithm is a ", type_of(algorithm_), "; give its name, a string");
  }
  algorithm = nb::borrow(algorithm_);
  call.options.algorithm = {text, static_cast<std::size_t>(size)};
}

std::int64_t Operation::take_counts(nb::handle values, const char* argument, std::vector<std::int64_t>& into) {
  if (!nb::try_cast(values, into)) {
    PyErr_Clear();
    refuse(name, ": ", argument, " is ", text_of(nb::repr(values)), "; give a sequence of ", ranks,
           " integers below 2^63, one for each rank");
  }
  if (into.size() != static_cast<std::size_t>(ranks))
    refuse(name, ": ", argument, " has ", into.size(), " entries; the group has ", ranks, " ranks");
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < into.size(); i++) {
    if (into[i] < 0) refuse(name, ": ", argument, "[", i, "] is ", into[i], "; a count must not be negative");
    if (__builtin_add_overflow(sum, into[i], &sum))
      refuse(name, ": the sum of ", argument, " overflows 2^63 - 1 elements");
  }
  return sum;
}

std::optional<std::int64_t> Operation::take_uneven(nb::handle values, const Array& parts, const char* argument) {
  const std::vector<std::int64_t> sizes = parts.part_counts();
  if (!values.is_none()) {
    const std::int64_t sum = take_counts(values, "counts", counts);
    for (std::size_t i = 0; i < sizes.size(); i++)
      if (sizes[i] != counts[i])
        refuse(name, ": ", argument, "[", i, "] has ", sizes[i], " elements and counts[", i, "] is ", counts[i]);
    return sum;
  }
  if (std::ranges::adjacent_find(sizes, std::ranges::not_equal_to{}) == sizes.end()) return std::nullopt;
  counts = sizes;
  return parts.count();
}

void Operation::take_parts(Array& array, nb::handle object, Access access, const char* argument) {
  if (PyList_Check(object.ptr()) != 0 || PyTuple_Check(object.ptr()) != 0)
    array.import_parts(object, ranks, access, elements(), name, argument);
  else
    array.import(object, access, elements(), name, argument);
}

void Operation::require_count(const Array& array, const char* argument, std::int64_t expected,
                              const std::string& why) const {
  if (array.count() != expected)
    refuse(name, ": ", argument, " has ", array.count(), " elements; it needs ", expected, " (", why, ")");
}

void Operation::require_same_dtype() const {
  if (x.type() != out.type())
    refuse(name, ": x has elements of type ", x.type(), " and out of type ", out.type(), "; they must be the same");
}

std::int64_t Operation::times_ranks(std::int64_t count) const {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(count, std::int64_t{ranks}, &product))
    refuse(name, ": ", ranks, " * ", count, " elements overflow 2^63 - 1");
  return product;
}

void Operation::bind_buffers() {
  // Memory that is copied through a stage looks apart to the library when it is not.
  // A list's stage is filled before and emptied afterwards, which keeps them apart.
  const bool lists = x.is_list() || out.is_list();
  if (!lists && (x.staged() || out.staged()) && x.extent().overlaps(out.extent()))
    refuse(name, ": x and out overlap and one of them is not contiguous; give arrays that are apart, or no out");
  call.dtype = x.held() ? x.dtype() : out.dtype();
  call.input = x.data();
  // A broadcast's root has its data in place, as the others do, though it is only read there.
  const bool in_place = x.written() || call.collective == Collective::broadcast;
  call.output = out.held() ? out.data() : in_place ? x.data() : nullptr;
  if (const std::int64_t times = (x.held() ? x : out).times(); times != 1) count_parts(times);
  call.counts = counts;
  call.output_counts = output_counts;
}

void Operation::count_parts(std::int64_t times) {
  const auto scale = [&](std::int64_t& count) {
    if (__builtin_mul_overflow(count, times, &count)) refuse(name, ": so many elements overflow 2^63 - 1 bytes");
  };
  scale(call.count);
  for (std::int64_t& count : counts) scale(count);
  for (std::int64_t& count : output_counts) scale(count);
}

void Operation::finish() const noexcept {
  x.copy_back();
  out.copy_back();
}

void Operation::run() {
  try {
    const GilReleased release;
    group.run(call);
  } catch (...) {
    rethrow();
  }
  finish();
  check_raised("the operation was done before it could be interrupted: its result is there");
}

void Operation::require_asynchronous(bool has_result) const {
  if (has_result) refuse(name, ": async_op=True needs out: there is nowhere to return a new array");
  for (const Array* array : {&x, &out})
    if (array->staged() && array->written() && !array->is_list())
      refuse(name, ": ", array == &x ? "x" : "out",
             " is not contiguous (in C order, aligned), which async_op=True cannot write to; give a contiguous array ",
             "(numpy.ascontiguousarray, x.contiguous()), or leave async_op out");
}

nb::tuple shape_of(nb::handle x, const Array& array) {
  if (nb::hasattr(x, "shape")) return nb::tuple(x.attr("shape"));
  return nb::make_tuple(array.count());
}

namespace {

nb::object new_array(nb::handle x, const Array& array, const nb::object& shape, const char* operation) {
  if (nb::hasattr(x, "new_empty")) return x.attr("new_empty")(shape);
  nb::object dtype;
  if (nb::hasattr(x, "dtype")) {
    dtype = x.attr("dtype");
  } else {
    const std::string numpy(detail::row_of(array.dtype()).numpy);
    if (array.times() != 1)  // of a record, say, in a memoryview
      dtype = nb::module_::import_("numpy").attr("asarray")(x).attr("dtype");
    else if (numpy.empty())
      refuse(operation, ": NumPy has no bfloat16 to return; give out");
    else
      dtype = nb::str(numpy.c_str());
  }
  return nb::module_::import_("numpy").attr("empty")(shape, dtype);
}

}  // namespace

nb::object allocate_like(nb::handle x, const Array& array, const nb::object& shape, const char* operation) {
  return call_interpreter([&] { return new_array(x, array, shape, operation); });
}

}  // namespace unisono::python
