/// The two ways in which Python objects show their memory: the buffer protocol (PEP 3118) and DLPack
/// (dmlc.github.io/dlpack).

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include "arrays.h"
#include "element_types.h"

namespace unisono::python {
namespace {

static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));

// The structures that a DLPack capsule holds, as the standard lays them out.
struct ManagedTensor {
  nb::dlpack::dltensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};
struct ManagedTensorVersioned {
  struct {
    std::uint32_t major, minor;
  } version;
  void* context;
  void (*deleter)(ManagedTensorVersioned*);
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;
};
constexpr std::uint64_t kReadOnly = 1;
constexpr std::int32_t kCpu = 1;

[[noreturn]] void refuse_elements(nb::handle object, const char* format, const char* operation, const char* name) {
  refuse(
      operation, ": ", name, " has elements of ", element_text(object, format),
      ", which can be moved (broadcast, all_gather, gather, scatter, all_to_all, send) but not reduced; reduced are "
      "float16, bfloat16, float32, float64, complex64, complex128, (u)int8 to (u)int64 and bool in the byte order of "
      "this machine");
}

[[noreturn]] void refuse_objects(const char* operation, const char* name) {
  refuse(operation, ": ", name,
         " holds Python objects or pointers, which mean nothing in another process; pickle them into a bytearray");
}

/// Whether NumPy says that there are objects in it, nested ones too.
bool has_objects(nb::handle object) {
  if (!nb::hasattr(object, "dtype")) return false;
  const nb::object dtype = object.attr("dtype");
  return nb::hasattr(dtype, "hasobject") && nb::cast<bool>(dtype.attr("hasobject"));
}

/// A view of what NumPy holds but does not export (dates, ml_dtypes' numbers, records with overlapping fields): the same
/// memory as plain bytes, item by item. Nothing where there is none.
nb::object as_plain_items(nb::handle object) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "view")) return {};
  const nb::object dtype = object.attr("dtype");
  if (!nb::hasattr(dtype, "itemsize")) return {};
  try {
    return object.attr("view")("V" + text_of(dtype.attr("itemsize")));
  } catch (nb::python_error&) {
    return {};
  }
}

}  // namespace

void Array::set_elements(nb::handle object, std::optional<ElementType> known, std::int64_t itemsize, const char* format,
                         Elements elements, const char* operation, const char* name) {
  if (elements == Elements::bytes) return;
  if (!known && elements == Elements::numbers) refuse_elements(object, format, operation, name);
  const ElementType type = known.value_or(ElementType{DType::u8, itemsize});
  dtype_ = type.dtype;
  times_ = type.times;
  if (!known || type.times != 1) type_ = element_text(object, format);
}

bool Array::take_buffer(nb::handle object, Elements elements, const char* operation, const char* name) {
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  if (has_objects(object)) refuse_objects(operation, name);
  bool plain = false;
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_RECORDS_RO) != 0) {
    const nb::python_error error;  // takes the error indicator
    const nb::object items = as_plain_items(object);
    plain = items.is_valid() && PyObject_GetBuffer(items.ptr(), &view_, PyBUF_RECORDS_RO) == 0;
    PyErr_Clear();
    if (!plain)
      refuse(operation, ": ", name, " (a ", type_of(object), " of ", element_text(object, "?"),
             ") does not give access to its memory: ", text_of(error.value()));
  }
  if (!plain && format_holds_objects(view_.format)) refuse_objects(operation, name);
  std::optional<ElementType> known = plain ? std::nullopt : type_of_format(view_.format, view_.itemsize);
  if (plain && text_of(object.attr("dtype")) == "bfloat16") known = ElementType{DType::bf16, 1};
  set_elements(object, known, view_.itemsize, view_.format, elements, operation, name);
  readonly_ = view_.readonly != 0;
  layout_ = {static_cast<std::byte*>(view_.buf), view_.itemsize, view_.ndim, view_.shape, view_.strides, 1};
  return true;
}

bool Array::take_dlpack(nb::handle given, Access access, Elements elements, const char* operation, const char* name) {
  if (!nb::hasattr(given, "__dlpack__") || PyType_Check(given.ptr())) return false;
  const nb::object object = materialized(given, access == Access::write, operation, name);
  nb::object capsule;
  try {
    try {
      capsule = object.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 0));
    } catch (nb::python_error& e) {
      if (!e.matches(PyExc_TypeError)) throw;
      capsule = object.attr("__dlpack__")();  // an exporter from before versions
    }
  } catch (nb::python_error& e) {
    refuse(operation, ": ", name, " (a ", type_of(object),
           ") does not give access to its memory: ", text_of(e.value()));
  }

  const nb::dlpack::dltensor* tensor = nullptr;
  if (auto* versioned =
          static_cast<ManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"))) {
    if (versioned->version.major != 1)
      refuse(operation, ": ", name, " speaks DLPack ", versioned->version.major, "; 1 is supported");
    tensor = &versioned->tensor;
    readonly_ = (versioned->flags & kReadOnly) != 0;
    PyCapsule_SetName(capsule.ptr(), "used_dltensor_versioned");
    tensor_ = versioned;
    drop_ = [](void* p) noexcept {
      auto* t = static_cast<ManagedTensorVersioned*>(p);
      if (t->deleter) t->deleter(t);
    };
  } else {
    PyErr_Clear();
    auto* managed = static_cast<ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    if (managed == nullptr) throw nb::python_error();
    tensor = &managed->tensor;
    readonly_ = without_flags_ = !is_always_writable(object);
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
    tensor_ = managed;
    drop_ = [](void* p) noexcept {
      auto* t = static_cast<ManagedTensor*>(p);
      if (t->deleter) t->deleter(t);
    };
  }

  if (static_cast<std::int32_t>(tensor->device.device_type) != kCpu)
    refuse(operation, ": ", name, " is not in this machine's main memory (DLPack device type ",
           static_cast<int>(tensor->device.device_type), "); give a copy of it there (x.cpu())");
  const std::int64_t bits = std::int64_t{tensor->dtype.bits} * tensor->dtype.lanes;
  if (tensor->dtype.code == 3 /* kDLOpaqueHandle */) refuse_objects(operation, name);
  if (bits % 8 != 0) refuse(operation, ": ", name, " has elements of ", bits, " bits; give it as whole bytes");
  const std::int64_t itemsize = bits / 8;
  set_elements(object, type_of_dlpack(tensor->dtype), itemsize, nullptr, elements, operation, name);
  layout_ = {static_cast<std::byte*>(tensor->data) + tensor->byte_offset,
             itemsize,
             tensor->ndim,
             tensor->shape,
             tensor->strides,
             itemsize};
  return true;
}

}  // namespace unisono::python
