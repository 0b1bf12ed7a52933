#pragma once
/// Addresses and sockets for the store's server and client.

#include <sys/socket.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/status.h"
#include "rendezvous/endpoint.h"

namespace unisono::rendezvous {

/// One address to connect to or to listen on.
struct Address {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const noexcept { return storage.ss_family; }
};
std::string to_string(const Address& address);  ///< "10.0.0.1:29500", "[::1]:29500", "unix:@NAME"

/// All addresses of an endpoint, in the resolver's order. Asks the name server: blocks as long as that takes. An empty
/// host means every address of this machine.
Result<std::vector<Address>> resolve(const Endpoint& endpoint);

/// A non-blocking listening socket. The error is errno's.
Result<Fd> listen_on(const Address& address);
/// The address that a socket was given.
Result<Address> local_address(int fd);
/// A connected, non-blocking socket, or the reason; waits until `deadline` at most.
Result<Fd> connect_to(const Address& address, TimePoint deadline);

/// Wait for `events` (POLLIN, POLLOUT); false when `deadline` passed first.
bool wait_for(int fd, short events, TimePoint deadline);
/// poll()'s timeout until `deadline`: rounded up, 0 when it has passed, -1 when there is none.
int milliseconds_until(TimePoint deadline);

/// The user on the other side of a unix socket is this one or root; an error names who it is. TCP sockets always pass.
Status check_peer_user(int fd);

}  // namespace unisono::rendezvous
