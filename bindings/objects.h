#pragma once
/// Python objects as bytes, for the object collectives. Thread-safety: GIL held.
///
/// What is plain travels by itself: None, bool, int, float, complex, str, bytes, list, tuple, dict,
/// NumPy arrays and scalars, torch CPU tensors; of these very types, not of types derived from
/// them. Reading it runs nobody's code, and damaged or hostile bytes are an InvalidArgument.
/// Everything else needs pickle, which both sides must have asked for.

#include <span>
#include <string>

#include "core.h"

namespace unisono::python {

/// How deep lists, tuples and dicts may be nested: a bound on the stack, and where a list that
/// contains itself ends.
inline constexpr int kMaxNesting = 100;

/// Throws InvalidArgument where the object is not plain and `pickle` is false; what pickle raises.
std::string encode_object(nb::handle object, bool pickle, const char* operation);
/// In place of an object: why there is none. Reading it throws InvalidArgument.
std::string encode_failure(const std::string& why);
/// `source`: the rank that sent it, for errors; negative: unknown.
nb::object decode_object(std::span<const std::byte> bytes, bool pickle, const char* operation, int source);

}  // namespace unisono::python
