#pragma once
/// Socket addresses as text: "10.0.0.1:41000", "[fe80::1%eth0]:41000". Numbers only: no name is ever looked up here.

#include <sys/socket.h>

#include <string>
#include <string_view>

#include "base/status.h"

namespace unisono::transport::tcp {

struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;

  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const noexcept { return storage.ss_family; }
};

/// `host` is an IPv4 or IPv6 address.
Result<Address> make_address(const std::string& host, std::uint16_t port);
/// The inverse of to_string().
Result<Address> parse_address(std::string_view text);
std::string to_string(const Address& address);
/// An address that means "all interfaces", which nobody can dial.
bool is_wildcard(const Address& address) noexcept;
/// 127.x.y.z or ::1: connections to it never leave the host.
bool is_loopback(const Address& address) noexcept;

/// Of a socket's two ends; empty (length 0) when it has none.
Address local_address(int fd) noexcept;
Address remote_address(int fd) noexcept;

}  // namespace unisono::transport::tcp
