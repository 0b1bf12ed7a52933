#include "rendezvous/store_listen.h"

#include <fmt/format.h>

#include <cerrno>
#include <string>

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

}  // namespace

Result<Fd> listen_for_store(const Endpoint& at, bool any_address_if_not_ours, const Logger& log) {
  const std::string what = "cannot serve the store at " + to_string(at);
  const auto addresses = resolve(at);
  if (!addresses) return addresses.status().with_context(what);
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
    const auto any = resolve({"", at.port, ""});
    for (const Address& a : any ? *any : std::vector<Address>{})
      if (auto fd = listen_on(a); fd) return fd;
  }
  return Status::system(what + advice(error, at), error);
}

}  // namespace unisono::rendezvous
