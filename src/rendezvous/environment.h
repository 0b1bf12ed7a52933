#pragma once
/// Reading the environment: the only place of the library that does, and through a function that tests replace.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "rendezvous/ancestors.h"
#include "unisono/config.hpp"

namespace unisono::rendezvous {

/// The value of a variable, or nothing when it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

/// What Config::from_env() does, with the environment given, and the processes above this one where they may be asked
/// (ancestors.h). Errors name the variable and its value (never a secret's).
Result<Config> config_from(const Environment& environment, const Ancestry& ancestry = {});

/// `environment` as if the variables in `names` were not set.
Environment without(Environment environment, std::vector<std::string> names);

/// Parse a variable as a whole number from `low` to `high`; false when it is unset or empty, an error when it is no such number.
Result<bool> read_integer(const Environment& environment, const char* name, std::int64_t low, std::int64_t high,
                          std::int64_t& into);

/// "tcp://ADDR:PORT" from MASTER_ADDR and MASTER_PORT (plus one when torchrun's agent owns that port).
Result<std::string> master_address(const Environment& environment);

}  // namespace unisono::rendezvous
