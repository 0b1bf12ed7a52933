#pragma once
/// Which rank's process has ended first: what `unisono run` says in the store that it serves, and
/// what ranks leave as last words while they agree on a secret.

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// One rank's process. Thread-safety: a value.
struct EndedRank {
  int rank = 0, size = 1;  ///< of the job
  std::int64_t pid = 0;
  std::string host;
  std::string how;  ///< "exited with status 0"
};

/// Where `unisono run` says it.
inline constexpr const char* kEndedKey = "unisono run/ended";

Bytes encode(const EndedRank& ended);
/// As the error of those who wait for it in a world of `size`; nothing in one of another size: not
/// all of the launcher's ranks are in that.
Status failure_of_ended(std::span<const std::byte> bytes, int size);

}  // namespace unisono::rendezvous
