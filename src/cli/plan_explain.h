#pragma once
/// `unisono plan --explain`: which algorithm would run, by which rule, and what is known of the
/// others: expected from constants, measured.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "plan/cost_model.h"
#include "plan/select.h"
#include "tuning/record.h"
#include "unisono/config.hpp"

namespace unisono::cli {

struct ExplainRequest {
  plan::Question question;
  std::vector<std::int32_t> hosts;  ///< by rank; several hosts or none
  std::vector<std::int32_t> nodes;  ///< by rank; NUMA nodes of one host or none
  int root = 0;
  int cores = 1;  ///< that ranks of one host share
  Config config;  ///< algorithm, constants, tuning, cache, peer_memory and slice_bytes count
};

/// An algorithm that can run there.
struct PossibleAlgorithm {
  const plan::Algorithm* algorithm = nullptr;
  plan::Cost cost;
  std::optional<double> expected, measured;  ///< seconds
};

struct ListedRule {
  plan::Rule rule;
  std::string_view origin;  ///< "built-in", "shared cores" (plan/host_rules.h), "measured", "UNISONO_ALGORITHM"
};

struct Explanation {
  plan::Question question;
  plan::Choice choice;
  /// What competes with it, call by call, where ranks can read each other's memory; or nothing.
  std::optional<plan::Choice> rival;
  /// Nothing of that: the data travels with the announcement of the operation, unless counts
  /// differ.
  bool goes_inline = false;
  std::optional<int> cores;  ///< that were taken into account; not between hosts
  std::optional<tuning::Record> record;
  std::optional<plan::CostModel> constants;
  std::string origin;  ///< of the constants
  std::vector<PossibleAlgorithm> candidates;
  std::int64_t measured_bytes = 0;  ///< at which they were measured
  std::vector<ListedRule> rules;    ///< of that collective, later ones win
};

/// The layout that the request is about: who shares memory with whom, by rank.
std::vector<std::int32_t> layout_of(const ExplainRequest& request);

/// An error says which of the settings cannot be understood.
Result<Explanation> explain_choice(const ExplainRequest& request);

/// On standard output, for people and for machines.
void print_text(const Explanation& said, const ExplainRequest& request);
void print_json(const Explanation& said);

}  // namespace unisono::cli
