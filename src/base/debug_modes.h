#pragma once
/// The words of UNISONO_DEBUG.

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "base/status.h"

namespace unisono {

/// What is checked besides.
struct DebugModes {
  bool buffers = false;  ///< programs that change the memory of operations in flight
};

/// Of words with commas between them; an empty text is none of them.
inline Result<DebugModes> parse_debug_modes(std::string_view text) {
  DebugModes modes;
  for (std::size_t at = 0; !text.empty() && at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (word != "buffers")
      return Status::invalid(fmt::format(
          "UNISONO_DEBUG=\"{}\": \"{}\" is unknown; expected words with commas between them, of these: buffers", text,
          word));
    modes.buffers = true;
    at = end + 1;
  }
  return modes;
}

}  // namespace unisono
