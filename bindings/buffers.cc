/// The two ways in which Python objects show their memory: the buffer protocol (PEP 3118) and DLPack
/// (dmlc.github.io/dlpack).

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <bit>
#include <cstring>

#include "arrays.h"

namespace unisono::python {
namespace {

static_assert(std::endian::native == std::endian::little, "formats marked '<' are taken for native below");
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

std::optional<DType> integer(std::int64_t itemsize, bool is_signed) {
  switch (itemsize) {
    case 1:
      return is_signed ? DType::i8 : DType::u8;
    case 2:
      return is_signed ? DType::i16 : DType::u16;
    case 4:
      return is_signed ? DType::i32 : DType::u32;
    case 8:
      return is_signed ? DType::i64 : DType::u64;
    default:
      return std::nullopt;
  }
}

std::optional<DType> floating(std::int64_t itemsize) {
  switch (itemsize) {
    case 2:
      return DType::f16;
    case 4:
      return DType::f32;
    case 8:
      return DType::f64;
    default:
      return std::nullopt;
  }
}

/// The DType of a buffer's format: one letter of the struct module, after an optional sign for byte order. The letter
/// gives the kind, the item size the width ('l' has 4 or 8 bytes).
std::optional<DType> dtype_of_format(const char* format, std::int64_t itemsize) {
  if (format == nullptr) return DType::u8;
  if (*format == '@' || *format == '=' || *format == '<' || (itemsize == 1 && (*format == '>' || *format == '!')))
    format++;
  if (format[0] == '\0' || format[1] != '\0') return std::nullopt;
  switch (format[0]) {
    case '?':
      return DType::boolean;
    case 'e':
    case 'f':
    case 'd':
      return floating(itemsize);
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
      return integer(itemsize, true);
    case 'c':
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
      return integer(itemsize, false);
    default:
      return std::nullopt;
  }
}

std::optional<DType> dtype_of_dlpack(nb::dlpack::dtype dtype) {
  if (dtype.lanes != 1 || dtype.bits % 8 != 0) return std::nullopt;
  switch (static_cast<nb::dlpack::dtype_code>(dtype.code)) {
    case nb::dlpack::dtype_code::Int:
      return integer(dtype.bits / 8, true);
    case nb::dlpack::dtype_code::UInt:
      return integer(dtype.bits / 8, false);
    case nb::dlpack::dtype_code::Float:
      return floating(dtype.bits / 8);
    case nb::dlpack::dtype_code::Bfloat:
      return dtype.bits == 16 ? std::optional(DType::bf16) : std::nullopt;
    case nb::dlpack::dtype_code::Bool:
      return dtype.bits == 8 ? std::optional(DType::boolean) : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string dtype_text(nb::handle object, const char* format) {
  if (nb::hasattr(object, "dtype")) return text_of(object.attr("dtype"));
  return std::string("format '") + (format ? format : "B") + "'";
}

[[noreturn]] void refuse_elements(nb::handle object, const char* format, const char* operation, const char* name) {
  refuse(operation, ": ", name, " has elements of ", dtype_text(object, format),
         ", which is not supported; supported are float16, bfloat16, float32, float64, (u)int8 to (u)int64 and bool in "
         "the byte order of "
         "this machine (a view may help: complex128 as float64)");
}

/// ml_dtypes' bfloat16, which NumPy holds but cannot export: the same memory as uint16.
nb::object as_uint16_if_bfloat16(nb::handle object) {
  if (!nb::hasattr(object, "dtype") || !nb::hasattr(object, "view")) return {};
  if (text_of(object.attr("dtype")) != "bfloat16") return {};
  return object.attr("view")("uint16");
}

}  // namespace

void Array::export_buffer(nb::handle object, const char* operation, const char* name) {
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_RECORDS_RO) == 0) return;
  const nb::python_error error;  // takes the error indicator
  refuse(operation, ": ", name, " (a ", type_of(object), " of ", dtype_text(object, "?"),
         ") does not give access to its memory: ", text_of(error.value()));
}

bool Array::take_buffer(nb::handle object, Elements elements, const char* operation, const char* name) {
  if (!PyObject_CheckBuffer(object.ptr())) return false;
  nb::object as_uint16;
  if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();
    as_uint16 = as_uint16_if_bfloat16(object);
    export_buffer(as_uint16.is_valid() ? as_uint16 : nb::borrow(object), operation, name);
  }
  const std::optional<DType> dtype =
      as_uint16.is_valid() ? std::optional(DType::bf16) : dtype_of_format(view_.format, view_.itemsize);
  if (elements == Elements::typed) {
    if (!dtype) refuse_elements(object, view_.format, operation, name);
    dtype_ = *dtype;
  } else if (view_.format != nullptr && std::strchr(view_.format, 'O') != nullptr) {
    refuse(operation, ": ", name,
           " holds Python objects, whose memory means nothing elsewhere; pickle them into a bytearray");
  }
  readonly_ = view_.readonly != 0;
  layout_ = {static_cast<std::byte*>(view_.buf), view_.itemsize, view_.ndim, view_.shape, view_.strides, 1};
  return true;
}

bool Array::take_dlpack(nb::handle object, Elements elements, const char* operation, const char* name) {
  if (!nb::hasattr(object, "__dlpack__") || PyType_Check(object.ptr())) return false;
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
  const std::optional<DType> dtype = dtype_of_dlpack(tensor->dtype);
  if (elements == Elements::typed) {
    if (!dtype) refuse_elements(object, nullptr, operation, name);
    dtype_ = *dtype;
  }
  const std::int64_t itemsize = tensor->dtype.bits * tensor->dtype.lanes / 8;
  layout_ = {static_cast<std::byte*>(tensor->data) + tensor->byte_offset,
             itemsize,
             tensor->ndim,
             tensor->shape,
             tensor->strides,
             itemsize};
  return true;
}

}  // namespace unisono::python
