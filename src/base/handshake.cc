#include "base/handshake.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <charconv>
#include <stdexcept>

namespace unisono {

PeerId random_peer_id() {
  PeerId id;
  if (::getentropy(&id, sizeof id) != 0) throw std::runtime_error("getentropy failed");
  return id;
}

std::string to_string(const PeerId& id) { return fmt::format("{:016x}{:016x}", id.high, id.low); }

Result<PeerId> parse_peer_id(std::string_view text) {
  PeerId id;
  const auto parse = [&](std::string_view half, std::uint64_t& into) {
    const auto [end, error] = std::from_chars(half.data(), half.data() + half.size(), into, 16);
    return error == std::errc{} && end == half.data() + half.size();
  };
  if (text.size() != 32 || !parse(text.substr(0, 16), id.high) || !parse(text.substr(16), id.low))
    return Status::invalid(fmt::format("\"{}\" is not a peer id: 32 hexadecimal digits are expected", text));
  return id;
}

}  // namespace unisono
