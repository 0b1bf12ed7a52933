#pragma once
/// Times and times per byte as people write them: "1.2us", "0.04ns/B", "10Gbit/s". Pure.

#include <string>
#include <string_view>

#include "base/status.h"

namespace unisono::simulate {

/// "1.2us" -> 1.2e-6; units s, ms, us, ns, ps; a plain 0 needs none. Seconds.
Result<double> parse_time(std::string_view text);
/// "0.04ns/B", or a rate: "10Gbit/s", "1.25GB/s" (powers of 1000). Seconds a byte.
Result<double> parse_time_per_byte(std::string_view text);
/// A number without a unit.
Result<double> parse_number(std::string_view text);

/// The inverse of the above, with the unit that leaves the shortest number.
std::string format_time(double seconds);
std::string format_time_per_byte(double seconds);

}  // namespace unisono::simulate
