#pragma once
/// Reading the environment: the only place of the library that does, and through a function that tests replace.

#include <functional>
#include <optional>
#include <string>

#include "base/status.h"
#include "unisono/config.hpp"

namespace unisono::rendezvous {

/// The value of a variable, or nothing when it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

/// What Config::from_env() does, with the environment given. Errors name the variable and its value (never a secret's).
Result<Config> config_from(const Environment& environment);

/// "tcp://ADDR:PORT" from MASTER_ADDR and MASTER_PORT (plus one when torchrun's agent owns that port).
Result<std::string> master_address(const Environment& environment);

}  // namespace unisono::rendezvous
