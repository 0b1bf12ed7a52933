#pragma once
/// Which process has which rank: two that believe to be the same one, or ranks of two jobs that met
/// at one place, are refused before they exchange anything else.

#include <memory>
#include <optional>

#include "base/log.h"
#include "base/status.h"
#include "rendezvous/host_identity.h"
#include "rendezvous/open_store.h"
#include "unisono/config.hpp"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// Take config.rank of config.job for the process `identity`, as long as the store that is returned
/// lives; the world is made in that one. It can be taken again by the same process, and when the
/// process that had it has ended or given it up (not in a file:// store, which may be a former
/// job's). Who takes it the n-th time meets those that take theirs the n-th time.
///
/// Errors (invalid_argument): somebody has the rank, named; this process is in another pid
/// namespace than the first one that came, although the launcher or the meeting place says that all
/// ranks are in one.
Result<std::shared_ptr<Store>> claim_rank(std::shared_ptr<Store> store, const Config& config,
                                          const HostIdentity& identity);

/// Rank 0's process, where it serves `store`, which meet() returned, and the store is gone with it.
/// Nothing: a launcher's store, a file, or one that meet() did not return.
std::optional<HostIdentity> rank_0_serving(const Store& store);

/// Open the store that the ranks of `config` meet in, and take this one's rank. Blocks until both
/// is done, at most config.init_timeout. A store that goes away meanwhile was a former world's:
/// then the next one is waited for.
Result<OpenedStore> meet(Config config, const Logger& log);

}  // namespace unisono::rendezvous
