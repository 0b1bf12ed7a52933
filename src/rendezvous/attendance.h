#pragma once
/// Who has come to where ranks meet, and the error that names those who have not.

#include <string_view>
#include <vector>

#include "base/status.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// Timeout that names `missing` of `size` ranks, who did not come to the store `where` within
/// `timeout`.
Status missing_ranks(std::string_view where, int size, const std::vector<int>& missing, Duration timeout);

/// Whether a rank may be one of `size`: an error that says which ones there are.
Status check_rank(int rank, int size);

}  // namespace unisono::rendezvous
