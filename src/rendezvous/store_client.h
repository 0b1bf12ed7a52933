#pragma once
/// The client of a StoreServer.

#include <memory>

#include "base/handshake.h"
#include "base/log.h"
#include "base/status.h"
#include "rendezvous/endpoint.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

struct StoreClientOptions {
  std::shared_ptr<HandshakeFactory> handshake;         ///< with Purpose::store
  Duration connect_timeout = std::chrono::minutes(5);  ///< how long a server may take to come up
  Duration answer_timeout = std::chrono::seconds(30);  ///< how long it may take to answer what does not wait
  Logger log = {};
};

/// Connect, trying every address of the name again and again until the timeout: a server that is not up yet is normal.
/// Ends at once when something answers that does not belong to the job. The store is safe for any number of threads:
/// each call in progress has a connection of its own.
Result<std::shared_ptr<Store>> connect_store(const Endpoint& to, StoreClientOptions options);

}  // namespace unisono::rendezvous
