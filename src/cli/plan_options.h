#pragma once
/// What the parts of `unisono plan` share: the command line, and what it names.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "plan/registry.h"
#include "plan/select.h"

namespace unisono::cli {

struct PlanOptions {
  std::string collective, algorithm, draw, bytes = "1M", place = "shm", memory = "private", hosts, nodes;
  std::string simulate, sizes, slice, how = "auto";
  int ranks = 0, root = 0, rank = -1, max = 128, per_host = 0, cores = 0;
  unsigned threads = 0;
  bool verify = false, json = false, verify_all = false, list = false, explain = false;
};

/// A mistake of the caller: what() goes to stderr, the exit status is 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The value, or a UsageError that begins with `context`.
template <class T>
T or_usage_error(Result<T> result, std::string_view context) {
  if (!result) throw UsageError(fmt::format("{}{}", context, result.status().message()));
  return std::move(result).value();
}

std::vector<std::string_view> algorithm_names(Collective collective);
std::vector<std::string_view> collective_names();
std::string_view place_name(plan::Place place);
/// --hosts 2,2 or --per-host 2 -> 0 0 1 1; empty without either.
std::vector<std::int32_t> hosts_of(const PlanOptions& o);
/// --nodes 2,2 -> 0 0 1 1; empty without it.
std::vector<std::int32_t> nodes_of(const PlanOptions& o);
/// Refuses ranks that are not there.
void check_group(const PlanOptions& o);
Collective collective_of(const PlanOptions& o);
/// The algorithm of that name, for the collective that was asked for.
const plan::Algorithm& named_algorithm(const PlanOptions& o);
/// The table in force, UNISONO_ALGORITHM included.
plan::Selector selector();

/// Refuses options that the one that says what to do has no use for, by their names.
void check_options(const CLI::App& command);

/// The parts: each prints, and returns the exit status.
int prove(const plan::Algorithm& algorithm, const PlanOptions& o, std::FILE* to);
int prove_all(const PlanOptions& o);
int simulate(const PlanOptions& o);
/// The networks that --simulate knows by name.
std::vector<std::string_view> preset_names();

}  // namespace unisono::cli
