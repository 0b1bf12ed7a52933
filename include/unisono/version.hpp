#pragma once
#include "unisono/export.hpp"
namespace unisono {
/// "0.1.0"
UNISONO_API const char* version() noexcept;
}  // namespace unisono
