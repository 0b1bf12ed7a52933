#pragma once
/// Serves a store to other processes, over TCP or an abstract unix socket, in one thread.
///
/// Nobody gets further than the handshake without the job secret, and getting there is bounded: 64 connections, 5
/// seconds and 4 KiB each. Garbage, port scanners and idle connections cost a debug line. Blocking gets are parked
/// here, so a client that waits sends nothing. When a client's connection ends without a goodbye,
/// its last words (rendezvous/when_gone.h) are set.

#include <cstddef>
#include <memory>

#include "base/handshake.h"
#include "base/log.h"
#include "base/status.h"
#include "rendezvous/endpoint.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

struct StoreServerOptions {
  std::shared_ptr<HandshakeFactory> handshake;  ///< with Purpose::store
  bool any_address_if_not_ours = false;         ///< tcp: listen on all addresses when the name is not one of this host
  std::size_t max_unauthenticated = 64;
  Duration handshake_timeout = std::chrono::seconds(5);
  std::size_t max_memory = std::size_t{512} << 20;  ///< keys, values and half-received requests together
  Logger log;
};

/// Thread-safety: any thread.
class StoreServer {
 public:
  /// Listen and start the thread. An error names the address: a port in use says so, and what to do.
  static Result<std::unique_ptr<StoreServer>> start(const Endpoint& at, StoreServerOptions options);
  virtual ~StoreServer() = default;  ///< closes everything at once
  /// Where it listens, with the port that was chosen when `at` had port 0.
  virtual const Endpoint& endpoint() const noexcept = 0;
  /// Let nobody in from now on, and give the address free: those who are connected stay. Soon after, not at once.
  virtual void stop_listening() = 0;
  /// Set `key`, if nobody has set it before, from within the serving process. Soon after, not at
  /// once.
  virtual void set_first(std::string key, Bytes value) = 0;
  /// Block until every client that has joined is gone, at most `timeout`; whether they are.
  virtual bool wait_until_idle(Duration timeout) = 0;
};

}  // namespace unisono::rendezvous
