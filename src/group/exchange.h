#pragma once
/// Everybody tells everybody one text, through a store: rank 0 gathers and publishes, so it costs two round trips a rank.

#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "unisono/store.hpp"

namespace unisono::group {

/// The texts of all ranks, by rank. Blocks until all have come or `timeout`; then every rank that is there gets the same
/// Timeout, which names those that are missing. `prefix` must be new for each exchange.
Result<std::vector<std::string>> exchange(Store& store, const std::string& prefix, int rank, int size,
                                          const std::string& mine, Duration timeout, const Clock& clock);

}  // namespace unisono::group
