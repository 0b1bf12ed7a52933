#include "transport/tcp/address.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>

#include <charconv>
#include <cstring>

namespace unisono::transport::tcp {

Result<Address> make_address(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0)
    return Status::invalid(fmt::format("tcp: \"{}\" is not an IP address: {}", host, ::gai_strerror(error)));
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.length = found->ai_addrlen;
  ::freeaddrinfo(found);
  return address;
}

Result<Address> parse_address(std::string_view text) {
  const auto colon = text.rfind(':');
  const Status bad =
      Status::invalid(fmt::format("tcp: \"{}\" is not an address: IP:PORT or [IPV6]:PORT is expected", text));
  if (colon == std::string_view::npos) return bad;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc{} || end != digits.data() + digits.size() || port == 0) return bad;
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host.empty() || bracketed != (host.find(':') != std::string_view::npos)) return bad;
  return make_address(std::string(host), port);
}

std::string to_string(const Address& address) {
  char host[NI_MAXHOST] = "";
  char port[NI_MAXSERV] = "";
  if (address.length == 0 || ::getnameinfo(address.get(), address.length, host, sizeof host, port, sizeof port,
                                           NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  return address.family() == AF_INET6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

bool is_wildcard(const Address& address) noexcept {
  if (address.family() == AF_INET)
    return reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr == INADDR_ANY;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  return address.family() == AF_INET6 && std::memcmp(&v6->sin6_addr, &in6addr_any, sizeof in6addr_any) == 0;
}

bool is_loopback(const Address& address) noexcept {
  constexpr std::uint32_t kLoopback = 127;
  if (address.family() == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_addr.s_addr) >> 24 == kLoopback;
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&address.storage);
  return address.family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

Address local_address(int fd) noexcept {
  Address address;
  address.length = sizeof address.storage;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) address.length = 0;
  return address;
}

Address remote_address(int fd) noexcept {
  Address address;
  address.length = sizeof address.storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.length) != 0) address.length = 0;
  return address;
}

}  // namespace unisono::transport::tcp
