#pragma once
/// The flight record as Python values.

#include <pybind11/pybind11.h>

#include "flight_record.h"

namespace unisono::torch_backend {

/// As torch's dumps: version, entries, pg_config. With Python's lock held.
pybind11::dict to_python(const FlightRecord& record);

}  // namespace unisono::torch_backend
