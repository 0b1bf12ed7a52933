#include "rendezvous/endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace unisono::rendezvous {
namespace {
constexpr std::size_t kMaxAbstractName = 107;  // sun_path without its leading zero byte
}

std::string to_string(const Endpoint& e) {
  if (e.is_unix()) return "unix:@" + e.name;
  return e.host.find(':') == std::string::npos ? fmt::format("{}:{}", e.host, e.port)
                                               : fmt::format("[{}]:{}", e.host, e.port);
}

Result<Endpoint> parse_endpoint(std::string_view text) {
  Endpoint e;
  if (text.starts_with("unix:")) {
    const std::string_view name = text.substr(5);
    if (!name.starts_with('@') || name.size() < 2 || name.size() > kMaxAbstractName + 1)
      return Status::invalid(
          fmt::format("\"{}\": expected unix:@NAME with a name of 1 to {} characters", text, kMaxAbstractName));
    e.name = name.substr(1);
    return e;
  }
  const auto colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0)
    return Status::invalid(fmt::format("\"{}\" is not HOST:PORT", text));
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']'))
    host = host.substr(1, host.size() - 2);
  else if (host.find(':') != std::string_view::npos)
    return Status::invalid(fmt::format("\"{}\": write an IPv6 address in brackets, [ADDRESS]:PORT", text));
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), e.port);
  if (host.empty() || port.empty() || error != std::errc{} || end != port.data() + port.size())
    return Status::invalid(fmt::format("\"{}\": the port must be a number from 0 to 65535", text));
  e.host = host;
  return e;
}

bool is_loopback(std::string_view host) noexcept {
  if (host == "localhost" || host == "::1") return true;
  in_addr address{};
  char text[INET_ADDRSTRLEN] = {};
  if (host.size() >= sizeof text) return false;
  std::memcpy(text, host.data(), host.size());
  return ::inet_pton(AF_INET, text, &address) == 1 && (ntohl(address.s_addr) >> 24) == 127;
}

}  // namespace unisono::rendezvous
