#pragma once
/// From a configuration to the store where the ranks of the job meet.

#include <memory>
#include <optional>
#include <string_view>

#include "base/log.h"
#include "base/status.h"
#include "rendezvous/environment.h"
#include "rendezvous/host_identity.h"
#include "unisono/config.hpp"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// Where the ranks meet.
struct OpenedStore {
  std::shared_ptr<Store> store;
  bool of_one_user = false;  ///< nobody but this user (and root) reads or writes it: the kernel says so
  /// Rank 0's process, where it serves the store, which is gone with it. None: a launcher's, a
  /// file, memory.
  std::optional<HostIdentity> rank_0_serves = std::nullopt;
};

/// The store that `config.init_method` names. Blocks until it is reached, at most config.init_timeout.
///
///   tcp://HOST:PORT   rank 0 serves it at that address, the others connect. When all ranks are known to be on this
///                     host (config.local_size == config.size, or a loopback address and no secret) no port is
///                     opened: an abstract unix socket stands in for the address, which lets in this user alone.
///   env://            the same with MASTER_ADDR and MASTER_PORT + 1, read through `environment`: MASTER_PORT itself
///                     belongs to torch.distributed, whose rank 0 or whose agent listens there.
///   unix:@NAME        `unisono run` serves it; under any other launcher rank 0 does, unless somebody does already.
///   file://PATH       a file that all ranks can reach; keys are kept apart by the job's name.
/// Several hosts over tcp without a secret are refused unless config.allow_insecure.
///
/// Where rank 0 serves, its store keeps the server alive, and destroying it waits until the other ranks have
/// disconnected, a few seconds at most, so that their last reads are not cut off. Errors: invalid_argument (a method
/// that cannot be read), system (port in use, nobody reached: with every address tried), authentication (another job or
/// another secret: at once, not after the timeout).
Result<OpenedStore> open_meeting_place(const Config& config, Logger log,
                                       const Environment& environment = process_environment());
/// The same without saying whose it is.
Result<std::shared_ptr<Store>> open_store(const Config& config, Logger log,
                                          const Environment& environment = process_environment());

/// A secret that all who meet in `store` share, hexadecimal: whoever comes first makes it. For a store of one user.
Result<std::string> secret_of_one_user(Store& store);

}  // namespace unisono::rendezvous
