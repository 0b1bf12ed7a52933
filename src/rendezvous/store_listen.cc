#include "rendezvous/store_listen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "rendezvous/socket.h"

namespace unisono::rendezvous {
namespace {

std::string advice(int error, const Endpoint& at) {
  if (error == EADDRINUSE && at.is_unix()) return " (something on this host serves that name already)";
  if (error == EADDRINUSE)
    return fmt::format(
        " (another program has port {}: choose another one, or end it; `ss -ltnp 'sport = :{}'` shows it)", at.port,
        at.port);
  if (error == EACCES) return " (ports below 1024 are for root)";
  if (error == EADDRNOTAVAIL) return " (that is not an address of this host: rank 0 must run where the address is)";
  return "";
}

/// A name that is not localhost and has no address but loopback: what Debian's /etc/hosts makes of a host's own name. Other
/// hosts know it by another address, where nobody would listen.
bool hidden_behind_loopback(const Endpoint& at, const std::vector<Address>& addresses) {
  return !at.is_unix() && !is_loopback(at.host) && std::ranges::all_of(addresses, [](const Address& a) {
    std::string text = to_string(a);  // "127.0.1.1:29500", "[::1]:29500"
    text.resize(text.rfind(':'));
    return is_loopback(text.starts_with('[') ? text.substr(1, text.size() - 2) : text);
  });
}

Result<Fd> listen_everywhere(std::uint16_t port) {
  const auto addresses = resolve({"", port, ""});
  if (!addresses) return addresses.status();
  Status last = Status::system("no address", 0);
  for (const Address& a : *addresses) {
    auto fd = listen_on(a);
    if (fd) return fd;
    last = fd.status();
  }
  return last;
}

}  // namespace

Result<Fd> listen_for_store(const Endpoint& at, bool any_address_if_not_ours, const Logger& log) {
  const std::string what = "cannot serve the store at " + to_string(at);
  const auto addresses = resolve(at);
  if (!addresses) return addresses.status().with_context(what);
  if (hidden_behind_loopback(at, *addresses)) {
    if (any_address_if_not_ours) {
      log.warn(
          fmt::format("{} leads to loopback on this host (/etc/hosts?): serving the store on port {} of every address",
                      at.host, at.port));
      auto fd = listen_everywhere(at.port);
      if (fd) return fd;
      return Status::system(what + advice(fd.status().error_number(), at), fd.status().error_number());
    }
    log.warn(
        fmt::format("{} leads to loopback on this host (/etc/hosts?): other hosts will not reach the store", at.host));
  }
  int error = 0;
  for (const Address& a : *addresses) {
    auto fd = listen_on(a);
    if (fd) return fd;
    error = fd.status().error_number();
    if (error == EADDRINUSE) break;  // do not slip to another address than the one that clients try first
  }
  if (error == EADDRNOTAVAIL && any_address_if_not_ours) {
    log.warn(
        fmt::format("{} is not an address of this host (a virtual one?): serving the store on port {} of every address",
                    at.host, at.port));
    auto fd = listen_everywhere(at.port);
    if (fd) return fd;
    error = fd.status().error_number();
  }
  return Status::system(what + advice(error, at), error);
}

}  // namespace unisono::rendezvous
