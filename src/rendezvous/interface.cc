#include "rendezvous/interface.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/fd.h"
#include "rendezvous/endpoint.h"

namespace unisono::rendezvous {

namespace {

struct Interface {
  std::string name, address;
  bool loopback = false;
};

std::string text_of(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST];
  if (::getnameinfo(address, length, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return host;  // a link-local address with its zone, without which it leads nowhere
}

bool is_link_local(const std::string& address) {
  return address.starts_with("fe80:") || address.starts_with("169.254.");
}

std::vector<Interface> interfaces() {
  std::vector<Interface> list;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return list;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(first, &::freeifaddrs);
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* i = first; i != nullptr; i = i->ifa_next) {
      if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != family || (i->ifa_flags & IFF_UP) == 0) continue;
      const std::string address = text_of(i->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
      if (address.empty()) continue;
      list.push_back({i->ifa_name, address, (i->ifa_flags & IFF_LOOPBACK) != 0});
    }
  // Only where there is no other address: hosts may call one network's interfaces by different names.
  std::ranges::stable_partition(list, [](const Interface& i) { return !is_link_local(i.address); });
  return list;
}

/// The local end of a datagram socket "connected" to `host`: what the routing table says, without a packet.
std::string route_to(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(host.c_str(), "9", &hints, &first) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(first, &::freeaddrinfo);
  for (const addrinfo* a = first; a != nullptr; a = a->ai_next) {
    const Fd fd(::socket(a->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!fd || ::connect(fd.get(), a->ai_addr, a->ai_addrlen) != 0) continue;
    sockaddr_storage local{};
    socklen_t length = sizeof local;
    if (::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&local), &length) != 0) continue;
    return text_of(reinterpret_cast<const sockaddr*>(&local), length);
  }
  return "";
}

std::string meeting_host(const Config& config, const Environment& environment) {
  if (config.init_method.rfind("tcp://", 0) == 0) {
    std::string rest = config.init_method.substr(6);
    if (!rest.empty() && rest[0] == '[') return rest.substr(1, rest.find(']') - 1);
    return rest.substr(0, rest.rfind(':'));
  }
  return environment("MASTER_ADDR").value_or("");
}

/// The addresses of a list of names with commas between them.
Result<std::vector<std::string>> addresses_of(const std::string& list, const std::vector<Interface>& all) {
  std::vector<std::string> addresses;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    const auto found = std::find_if(all.begin(), all.end(), [&](const Interface& i) {
      return i.name == name || i.address == name || i.address.substr(0, i.address.find('%')) == name;
    });
    if (found == all.end()) {
      std::string names;
      for (const Interface& i : all) names += fmt::format(" {} ({})", i.name, i.address);
      return Status::invalid(
          fmt::format("UNISONO_INTERFACE={}: \"{}\" is neither an interface nor an address of this host; it has:{}",
                      list, name, names));
    }
    if (std::find(addresses.begin(), addresses.end(), found->address) == addresses.end())
      addresses.push_back(found->address);
    begin = end + 1;
  }
  return addresses;
}

}  // namespace

Result<std::vector<std::string>> interface_addresses(const Config& config, const Logger& log,
                                                     const Environment& environment) {
  const std::vector<Interface> all = interfaces();
  if (!config.interface.empty()) return addresses_of(config.interface, all);
  const std::string host = meeting_host(config, environment);
  if (!host.empty()) {
    const std::string address = route_to(host);
    if (!address.empty() && !is_loopback(address)) {
      log.info(fmt::format("listening on {}: the address from which {} is reached", address, host));
      return std::vector{address};
    }
  }
  // Nothing is sent to these addresses, which are nobody's (RFC 5737, RFC 3849): their route is the default one.
  for (const char* far_away : {"192.0.2.1", "2001:db8::1"}) {
    const std::string address = route_to(far_away);
    if (address.empty() || is_loopback(address)) continue;
    log.info(fmt::format("listening on {}: the address of the default route", address));
    return std::vector{address};
  }
  for (const Interface& i : all)
    if (!i.loopback) {
      log.info(fmt::format("listening on {}: the first address of {}", i.address, i.name));
      return std::vector{i.address};
    }
  return Status::system(
      "this host has no address but loopback, and ranks on other hosts must reach it: set UNISONO_INTERFACE", 0);
}

}  // namespace unisono::rendezvous
