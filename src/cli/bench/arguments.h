#pragma once
/// What `unisono bench` was asked to measure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/bench/measure.h"
#include "cli/bench/values.h"

namespace unisono::cli {

/// As given.
struct BenchArguments {
  std::string collective;
  std::optional<int> ranks;
  std::vector<std::string> sizes = {"8,64K,1M,64M"};  ///< lists and ranges (sizes.h)
  std::string dtype = "f32", op = "sum", transport, json, memory = "ordinary", bind = "auto";
  int root = 0;
  MeasureOptions measure;
  bool is_rank = false;  ///< started by ourselves
  bool tune = false;
  std::string plot;
  bool sizes_given = false, seconds_given = false, bind_given = false;
};

/// As understood.
struct Benchmark {
  Problem problem;  ///< without the counts
  std::vector<std::int64_t> sizes;
  std::vector<Collective> collectives;  ///< to tune
};

/// InvalidArgument with what is wrong, and what there is instead.
Result<Benchmark> understand(const BenchArguments& a);

/// What can be measured, for help and messages.
std::string names_of_benchmarks();
std::string names_of_dtypes();
std::string names_of_ops();

}  // namespace unisono::cli
