#pragma once
/// The address of a store server.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace unisono::rendezvous {

/// A TCP address, or an abstract unix socket. Thread-safety: a value.
struct Endpoint {
  std::string host;        ///< tcp: name or address, without brackets
  std::uint16_t port = 0;  ///< tcp: 0 lets the kernel choose
  std::string name;        ///< unix: abstract name, without the '@'; empty means tcp
  bool is_unix() const noexcept { return !name.empty(); }
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

/// "10.0.0.1:29500", "[::1]:29500", "unix:@NAME".
std::string to_string(const Endpoint&);
/// From "HOST:PORT", "[IPV6]:PORT" or "unix:@NAME".
Result<Endpoint> parse_endpoint(std::string_view text);

/// Whether it is "localhost" or an address of 127.0.0.0/8 or ::1, without asking a name server.
bool is_loopback(std::string_view host) noexcept;

}  // namespace unisono::rendezvous
