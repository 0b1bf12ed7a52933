#pragma once
/// Which elements an array has, from the words of its exporter: a DType, or a type that can only be
/// moved. Thread-safety: GIL held.

#include <nanobind/ndarray.h>

#include "core.h"

namespace unisono::python {

/// One element as the library takes it: `times` numbers of `dtype`.
struct ElementType {
  DType dtype = DType::u8;
  std::int64_t times = 1;  ///< bytes of what can only be moved
};
/// That of a buffer's format (a letter of the struct module, or PEP 3118's Zf and Zd), or nothing.
std::optional<ElementType> type_of_format(const char* format, std::int64_t itemsize);
std::optional<ElementType> type_of_dlpack(nb::dlpack::dtype dtype);

/// Whether a format has Python objects or pointers among its elements or their fields. Names of
/// fields do not count.
bool format_holds_objects(const char* format);

/// The type as NumPy or torch writes it ("complex64", "[('a', '<i4')]"); where neither knows it,
/// the format.
std::string element_text(nb::handle object, const char* format);

/// Whether `object` is of a library, or of a class derived from a library's, whose arrays can all
/// be written. DLPack before 1.0 cannot say so.
bool is_always_writable(nb::handle object);

/// A lazily conjugated or negated torch tensor as one whose memory holds its values; other objects
/// as they are. Throws InvalidArgument where it is to be written.
nb::object materialized(nb::handle object, bool written, const char* operation, const char* name);

}  // namespace unisono::python
