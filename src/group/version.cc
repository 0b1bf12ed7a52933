#include "unisono/version.hpp"

namespace unisono {
const char* version() noexcept { return "0.1.0"; }
}  // namespace unisono
