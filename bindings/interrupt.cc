#include "interrupt.h"

namespace unisono::python {

bool interrupted() noexcept {
  const nb::gil_scoped_acquire acquire;
  return PyErr_CheckSignals() != 0;
}

}  // namespace unisono::python
