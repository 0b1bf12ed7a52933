#pragma once
/// How `unisono bench` shows its figures: a line for each measurement, of at most 100 columns, and
/// JSON.

#include <cstdio>
#include <string>
#include <vector>

#include "cli/bench/measure.h"
#include "cli/bench/values.h"

namespace unisono::cli {

/// One line.
struct BenchRow {
  Problem problem;
  BenchMode mode = BenchMode::out_of_place;
  std::string transport;
  Measurement measured;
};

/// Gigabytes (10^9) a second: bytes over time, and that times what the algorithm-independent
/// traffic of a rank is.
double algorithm_bandwidth(const Problem& problem, double seconds);
double bus_bandwidth(const Problem& problem, double seconds);

/// What all rows have in common, what the columns mean, and their names.
void print_header(std::FILE* to, const Problem& problem, const std::string& transport, const std::string& version);
void print_row(std::FILE* to, const BenchRow& row);
/// Rows in which several algorithms ran, whether all results were right, and the mean bus
/// bandwidth.
void print_footer(std::FILE* to, const std::vector<BenchRow>& rows);

/// Elements that were wrong in all rows.
std::int64_t total_wrong(const std::vector<BenchRow>& rows);

/// An array with one object a line for each row: collective ranks bytes dtype op algorithm (the one
/// that ran most often; null for messages) transport time_us (the median) min_us p5_us p95_us
/// max_us calls algbw_gbps busbw_gbps wrong (null where unchecked) in_place mode algorithms (calls
/// of each).
std::string to_json(const std::vector<BenchRow>& rows);

}  // namespace unisono::cli
