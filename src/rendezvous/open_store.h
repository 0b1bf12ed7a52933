#pragma once
/// From a configuration to the store where the ranks of the job meet.

#include <memory>
#include <string_view>

#include "base/log.h"
#include "base/status.h"
#include "rendezvous/environment.h"
#include "unisono/config.hpp"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// The store that `config.init_method` names. Blocks until it is reached, at most config.init_timeout.
///
///   tcp://HOST:PORT   rank 0 serves it at that address, the others connect. When all ranks are known to be on this
///   host
///                     (config.local_size == config.size) no port is opened: an abstract unix socket stands in for the
///                     address.
///   env://            the same with MASTER_ADDR and MASTER_PORT, read through `environment`. Under torchrun the agent
///   owns
///                     MASTER_PORT, and rank 0 serves at the next one.
///   unix:@NAME        `unisono run` serves it; under any other launcher rank 0 does, unless somebody does already.
///   file://PATH       a file that all ranks can reach; keys are kept apart by the job's name.
/// Several hosts over tcp without a secret are refused unless config.allow_insecure.
///
/// Where rank 0 serves, its store keeps the server alive, and destroying it waits until the other ranks have
/// disconnected, a few seconds at most, so that their last reads are not cut off. Errors: invalid_argument (a method
/// that cannot be read), system (port in use, nobody reached: with every address tried), authentication (another job or
/// another secret: at once, not after the timeout).
Result<std::shared_ptr<Store>> open_store(const Config& config, Logger log,
                                          const Environment& environment = process_environment());

}  // namespace unisono::rendezvous
