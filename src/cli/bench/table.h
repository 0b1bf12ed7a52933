#pragma once
/// How `unisono bench` shows its figures: the columns of nccl-tests, and JSON.

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "cli/bench/measure.h"
#include "cli/bench/values.h"

namespace unisono::cli {

/// All that was measured at one size.
struct BenchRow {
  Problem problem;
  std::string algorithm, transport;
  Measurement out_of_place;
  std::optional<Measurement> in_place;
};

/// Gigabytes (10^9) a second: bytes over time, and that times what the algorithm-independent traffic of a rank is.
double algorithm_bandwidth(const Problem& problem, double seconds);
double bus_bandwidth(const Problem& problem, double seconds);

void print_header(std::FILE* to, const Problem& problem, const std::string& transport, const std::string& version);
void print_row(std::FILE* to, const BenchRow& row);
/// Whether all results were right, and the mean bus bandwidth.
void print_footer(std::FILE* to, const std::vector<BenchRow>& rows);

/// Elements that were wrong in all rows.
std::int64_t total_wrong(const std::vector<BenchRow>& rows);

/// An array with one object a line for each half of a row: collective ranks bytes dtype op algorithm transport time_us
/// algbw_gbps busbw_gbps wrong (null where unchecked) in_place.
std::string to_json(const std::vector<BenchRow>& rows);

}  // namespace unisono::cli
