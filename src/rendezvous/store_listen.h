#pragma once
/// Where a store server listens.

#include "base/fd.h"
#include "base/log.h"
#include "base/status.h"
#include "rendezvous/endpoint.h"

namespace unisono::rendezvous {

/// A listening socket at the first address of `at`. When that would be out of other hosts' reach (the name is a virtual address
/// that this host does not have, or leads to loopback here alone) and `any_address_if_not_ours`: on every address, with a
/// warning. Errors say what to do.
Result<Fd> listen_for_store(const Endpoint& at, bool any_address_if_not_ours, const Logger& log);

}  // namespace unisono::rendezvous
