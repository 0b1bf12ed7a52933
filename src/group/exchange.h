#pragma once
/// Everybody tells everybody one text, through a store: rank 0 gathers and publishes, so it costs two round trips a rank.

#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "unisono/store.hpp"

namespace unisono::group {

/// What rank 0 adds to the document, having read all texts. It must not throw.
using Decide = std::function<std::string(const std::vector<std::string>& texts)>;
struct Exchanged {
  std::vector<std::string> texts;  ///< by rank
  std::string decision;            ///< rank 0's, on every rank
};

/// The texts of all ranks, by rank. Blocks until all have come or `timeout`; then every rank that is there gets the same
/// Timeout, which names those that are missing. `prefix` must be new for each exchange.
Result<std::vector<std::string>> exchange(Store& store, const std::string& prefix, int rank, int size,
                                          const std::string& mine, Duration timeout, const Clock& clock);
/// The same with a decision; every rank passes one, rank 0's is asked.
Result<Exchanged> exchange_and_decide(Store& store, const std::string& prefix, int rank, int size,
                                      const std::string& mine, Duration timeout, const Clock& clock,
                                      const Decide& decide);

}  // namespace unisono::group
