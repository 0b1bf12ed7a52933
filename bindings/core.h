#pragma once
/// unisono._core: one register function a topic. All of them are called once, from module.cc, with the GIL held.

#include <nanobind/nanobind.h>

#include <unisono/unisono.hpp>

#include "gil.h"

namespace unisono::python {

namespace nb = nanobind;

void register_errors(nb::module_& m);
void register_types(nb::module_& m);
void register_config(nb::module_& m);
void register_store(nb::module_& m);
void register_joining(nb::module_& m);
void register_work(nb::module_& m);
void register_completions(nb::module_& m);
void register_registration(nb::module_& m);
void register_group(nb::module_& m);
void register_objects(nb::module_& m);

/// The ReduceOp that `op` is, or names ("sum"). Throws InvalidArgument that lists the names.
ReduceOp parse_op(nb::handle op, const char* operation);

/// None: nothing; seconds as a float or an int, or a timedelta. Throws InvalidArgument when negative or no number.
std::optional<Duration> parse_timeout(nb::handle timeout, const char* operation);

/// Seconds with three decimals: "0.150".
std::string text_of(Duration duration);

/// Throws InvalidArgument with printf-like ease: the pieces in a row.
template <class... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  std::string message;
  const auto add = [&message](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>)
      message += std::to_string(part);
    else
      message += part;
  };
  (add(parts), ...);
  throw InvalidArgument(message);
}

/// str() of an object.
std::string text_of(nb::handle object);

/// The qualified name of an object's type: "float", "numpy.ndarray".
std::string type_of(nb::handle object);

}  // namespace unisono::python
