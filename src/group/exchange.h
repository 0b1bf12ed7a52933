#pragma once
/// Everybody tells everybody one text, through a store: rank 0 gathers and publishes, so it costs two round trips a rank.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "unisono/store.hpp"

namespace unisono::group {

/// How much longer than the other ranks the store is waited for: its last answers still count.
inline constexpr Duration kLastAnswers = std::chrono::milliseconds(500);
/// Asked now and then while a rank waits for others: why there is no use in it, if so.
using Watch = std::function<Status()>;
/// The rank that serves the store.
struct StoreServer {
  int rank = 0;     ///< in the numbering of the caller's errors; -1: not one of its ranks
  std::string who;  ///< "rank 0", or "rank 0 of group \"world\""
  std::string host;
  std::int64_t pid = 0;
};
/// Who exchanges, where, and for how long.
struct Party {
  Store& store;
  std::string prefix;  ///< new for each exchange
  int rank = 0, size = 1;
  Duration timeout{};
  const Clock& clock;
  Watch watch = nullptr;                             ///< may be empty
  std::optional<StoreServer> server = std::nullopt;  ///< none: no rank of the job
};

/// The error for a store that cannot be asked any more: where one of the ranks serves it, that rank
/// has ended. `why`: what the store said; it is returned as it is while the store answers.
Status about_store(const Party& party, const Status& why);

/// What rank 0 adds to the document, having read all texts. It must not throw.
using Decide = std::function<std::string(const std::vector<std::string>& texts)>;
struct Exchanged {
  std::vector<std::string> texts;  ///< by rank
  std::string decision;            ///< rank 0's, on every rank
};

/// The texts of all ranks, by rank. Blocks until all have come or the timeout; then every rank that is there gets the same
/// Timeout, which names those that are missing. An error of rank 0's `watch` is everybody's, too; another rank's ends its own wait.
Result<std::vector<std::string>> exchange(const Party& party, const std::string& mine);
/// The same with a decision; every rank passes one, rank 0's is asked.
Result<Exchanged> exchange_and_decide(const Party& party, const std::string& mine, const Decide& decide);

}  // namespace unisono::group
