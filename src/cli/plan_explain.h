#pragma once
/// `unisono plan --explain`: which algorithm would run, by which rule, and what is known of the others: expected from constants, measured.

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/select.h"
#include "unisono/config.hpp"

namespace unisono::cli {

struct ExplainRequest {
  plan::Question question;
  std::vector<std::int32_t> hosts;  ///< by rank; several hosts or none
  std::vector<std::int32_t> nodes;  ///< by rank; NUMA nodes of one host or none
  int root = 0;
  Config config;  ///< algorithm, constants, tuning, cache and slice_bytes count
};

/// The layout that the request is about: who shares memory with whom, by rank.
std::vector<std::int32_t> layout_of(const ExplainRequest& request);

/// Prints to standard output. An error says which of the settings cannot be understood.
Status explain_choice(const ExplainRequest& request);

}  // namespace unisono::cli
