#pragma once
/// C++ exceptions as the classes of unisono.errors, with their fields.

#include <exception>

#include "core.h"

namespace unisono::python {

/// The Python exception instance for a C++ exception; None for an empty pointer. GIL held.
nb::object to_python(const std::exception_ptr& error);

}  // namespace unisono::python
