#include "element_types.h"

#include <nanobind/stl/string.h>

#include <bit>
#include <cstring>

namespace unisono::python {
namespace {

static_assert(std::endian::native == std::endian::little, "formats marked '<' are taken for native below");

constexpr ElementType of(DType dtype) { return {dtype, 1}; }

std::optional<ElementType> integer(std::int64_t itemsize, bool is_signed) {
  switch (itemsize) {
    case 1:
      return of(is_signed ? DType::i8 : DType::u8);
    case 2:
      return of(is_signed ? DType::i16 : DType::u16);
    case 4:
      return of(is_signed ? DType::i32 : DType::u32);
    case 8:
      return of(is_signed ? DType::i64 : DType::u64);
    default:
      return std::nullopt;
  }
}

std::optional<ElementType> floating(std::int64_t itemsize) {
  switch (itemsize) {
    case 2:
      return of(DType::f16);
    case 4:
      return of(DType::f32);
    case 8:
      return of(DType::f64);
    default:
      return std::nullopt;
  }
}

std::optional<ElementType> complex_number(std::int64_t itemsize) {
  switch (itemsize) {
    case 8:
      return of(DType::c64);
    case 16:
      return of(DType::c128);
    default:
      return std::nullopt;
  }
}

bool starts_with(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }

/// NumPy's dtype of what shows its memory to it, or nothing.
nb::object numpy_dtype(nb::handle object) {
  try {
    return nb::module_::import_("numpy")
        .attr("asarray")(nb::module_::import_("builtins").attr("memoryview")(object))
        .attr("dtype");
  } catch (nb::python_error&) {
    return {};  // a format of which NumPy does not know, or no NumPy
  }
}

}  // namespace

/// The DType of a buffer's format: one letter of the struct module, after an optional sign for byte
/// order. The letter gives the kind, the item size the width ('l' has 4 or 8 bytes).
std::optional<ElementType> type_of_format(const char* format, std::int64_t itemsize) {
  if (format == nullptr) return of(DType::u8);
  if (*format == '@' || *format == '=' || *format == '<' || (itemsize == 1 && (*format == '>' || *format == '!')))
    format++;
  if (format[0] == 'Z' && (format[1] == 'f' || format[1] == 'd') && format[2] == '\0') return complex_number(itemsize);
  if (format[0] == '\0' || format[1] != '\0') return std::nullopt;
  switch (format[0]) {
    case '?':
      return of(DType::boolean);
    case 'e':
    case 'f':
    case 'd':
      return floating(itemsize);
    case 'F':
    case 'D':
      return complex_number(itemsize);
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

std::optional<ElementType> type_of_dlpack(nb::dlpack::dtype dtype) {
  if (dtype.lanes != 1 || dtype.bits % 8 != 0) return std::nullopt;
  switch (static_cast<nb::dlpack::dtype_code>(dtype.code)) {
    case nb::dlpack::dtype_code::Int:
      return integer(dtype.bits / 8, true);
    case nb::dlpack::dtype_code::UInt:
      return integer(dtype.bits / 8, false);
    case nb::dlpack::dtype_code::Float:
      return floating(dtype.bits / 8);
    case nb::dlpack::dtype_code::Complex:
      return complex_number(dtype.bits / 8);
    case nb::dlpack::dtype_code::Bfloat:
      return dtype.bits == 16 ? std::optional(of(DType::bf16)) : std::nullopt;
    case nb::dlpack::dtype_code::Bool:
      return dtype.bits == 8 ? std::optional(of(DType::boolean)) : std::nullopt;
    default:
      return std::nullopt;
  }
}

bool format_holds_objects(const char* format) {
  if (format == nullptr) return false;
  bool in_name = false;
  for (const char* c = format; *c != '\0'; c++) {
    if (*c == ':')
      in_name = !in_name;
    else if (!in_name && (*c == 'O' || *c == '&' || *c == 'X'))
      return true;
  }
  return false;
}

std::string element_text(nb::handle object, const char* format) {
  const nb::object dtype = nb::hasattr(object, "dtype") ? nb::object(object.attr("dtype")) : numpy_dtype(object);
  std::string text = dtype.is_valid() ? text_of(dtype) : std::string("format '") + (format ? format : "B") + "'";
  if (starts_with(text, "torch.")) text = text.substr(6);
  constexpr std::string_view kRecord = "(numpy.record, ";  // numpy.recarray: the same memory
  if (starts_with(text, kRecord)) text = text.substr(kRecord.size(), text.size() - kRecord.size() - 1);
  return text;
}

bool is_always_writable(nb::handle object) {
  constexpr std::string_view kLibraries[] = {"torch", "numpy", "cupy", "paddle", "mxnet"};
  const nb::handle type(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
  for (const nb::handle base : nb::tuple(type.attr("__mro__"))) {
    const std::string module = text_of(base.attr("__module__"));
    for (const std::string_view library : kLibraries)
      if (module.substr(0, module.find('.')) == library) return true;
  }
  return false;
}

nb::object materialized(nb::handle object, bool written, const char* operation, const char* name) {
  const auto lazy = [&](const char* flag) {
    return nb::hasattr(object, flag) && nb::cast<bool>(nb::bool_(object.attr(flag)()));
  };
  if (!nb::hasattr(object, "resolve_neg") || (!lazy("is_conj") && !lazy("is_neg"))) return nb::borrow(object);
  if (written)
    refuse(
        operation, ": ", name,
        " is a lazily conjugated or negated view, whose memory has other values, and the result is written to it; give "
        "x.resolve_conj().resolve_neg()");
  return object.attr("resolve_conj")().attr("resolve_neg")();
}

}  // namespace unisono::python
