#pragma once
/// Where a store server listens.

#include "base/fd.h"
#include "base/log.h"
#include "base/status.h"
#include "rendezvous/endpoint.h"

namespace unisono::rendezvous {

/// A listening socket at the first address of `at`. When the name is an address that this host does not have (a virtual one
/// that is forwarded here) and `any_address_if_not_ours`: on every address, with a warning. Errors say what to do.
Result<Fd> listen_for_store(const Endpoint& at, bool any_address_if_not_ours, const Logger& log);

}  // namespace unisono::rendezvous
