#pragma once
/// Reductions of single numbers, whose results are returned. Thread-safety: GIL held.

#include "core.h"
#include "group.h"

namespace unisono::python {

/// Whether it is a number of Python's (int, bool, float, complex) or a NumPy scalar, and not an
/// array.
bool is_number(nb::handle x);

/// Combine a number of all ranks: as i64, f64 or c128, or the type of the NumPy scalar. Returns the
/// result; for reduce None on the other ranks. Throws InvalidArgument for an int beyond 64 bits,
/// for `out` and for `async_op`.
nb::object reduce_number(const PyGroup& self, Collective collective, const char* name, nb::handle x, int root,
                         nb::handle op, nb::handle out, bool async_op, nb::handle timeout, nb::handle algorithm);

}  // namespace unisono::python
