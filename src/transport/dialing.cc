#include "transport/dialing.h"

#include <fmt/format.h>

namespace unisono::transport {

Status Dial::give_up(std::string_view transport, std::string_view hint) const {
  const std::string what = fmt::format("{}: cannot reach peer {} at {}: {} tries, last: {}", transport, to_string(to),
                                       address, tries, last.empty() ? "no answer" : last);
  if (dropped >= kMaxDropped)
    return Status::authentication(fmt::format(
        "{}; it hangs up during the handshake: does it have the same job secret, and the same version of unisono?",
        what));
  return Status::timeout(fmt::format("{}; {}", what, hint));
}

}  // namespace unisono::transport
