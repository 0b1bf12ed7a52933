#include "cli/bench/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

namespace unisono::cli {

namespace {

/// With as many decimals, up to two, as fit into the width.
std::string number(double value, std::size_t width) {
  for (int decimals = 2; decimals >= 0; decimals--) {
    std::string text = fmt::format("{:.{}f}", value, decimals);
    if (text.size() <= width) return text;
  }
  return fmt::format("{:.1e}", value);
}

/// What a rank must send at least, relative to the size of the collective: makes different
/// collectives and numbers of ranks comparable with the speed of the hardware.
double bus_factor(Collective collective, int size) {
  const double others = static_cast<double>(size - 1) / size;
  switch (collective) {
    case Collective::all_reduce:
      return 2 * others;
    case Collective::reduce_scatter:
    case Collective::all_gather:
    case Collective::all_to_all:
    case Collective::gather:
    case Collective::scatter:
      return others;
    default:
      return 1;
  }
}

std::string op_text(const Problem& p) {
  return !p.messages && reduces(p.collective) ? std::string(name_of(p.op)) : "none";
}

/// Three columns wide.
std::string_view short_name(BenchMode mode) {
  switch (mode) {
    case BenchMode::out_of_place:
      return "out";
    case BenchMode::in_place:
      return "in";
    case BenchMode::latency:
      return "lat";
    case BenchMode::bandwidth:
      return "bw";
  }
  return "?";
}

/// What ran most often.
std::string algorithm_text(const Measurement& m) { return m.algorithms.empty() ? "-" : m.algorithms.front().first; }

/// Six digits: more than a clock knows, and short to read.
double rounded(double value) { return std::stod(fmt::format("{:.6g}", value)); }

nlohmann::ordered_json row_json(const BenchRow& row) {
  const Problem& p = row.problem;
  const Measurement& m = row.measured;
  const auto microseconds = [](double seconds) { return rounded(seconds * 1e6); };
  nlohmann::ordered_json j;
  j["collective"] = name_of(p);
  j["ranks"] = p.size;
  j["bytes"] = total_bytes(p);
  j["dtype"] = name_of(p.dtype);
  j["op"] = op_text(p);
  j["algorithm"] = nullptr;
  if (!m.algorithms.empty()) j["algorithm"] = m.algorithms.front().first;
  j["transport"] = row.transport;
  j["time_us"] = microseconds(m.seconds);
  j["min_us"] = microseconds(m.least);
  j["p5_us"] = microseconds(m.p5);
  j["p95_us"] = microseconds(m.p95);
  j["max_us"] = microseconds(m.most);
  j["calls"] = m.calls;
  j["algbw_gbps"] = rounded(algorithm_bandwidth(p, m.seconds));
  j["busbw_gbps"] = rounded(bus_bandwidth(p, m.seconds));
  j["wrong"] = m.wrong ? nlohmann::ordered_json(*m.wrong) : nlohmann::ordered_json(nullptr);
  j["in_place"] = row.mode == BenchMode::in_place;
  j["mode"] = name_of(row.mode);
  j["algorithms"] = nlohmann::ordered_json::object();
  for (const auto& [name, calls] : m.algorithms) j["algorithms"][name] = calls;
  return j;
}

}  // namespace

double algorithm_bandwidth(const Problem& p, double seconds) {
  return seconds > 0 ? static_cast<double>(total_bytes(p)) / seconds / 1e9 : 0;
}
double bus_bandwidth(const Problem& p, double seconds) {
  return algorithm_bandwidth(p, seconds) * (p.messages ? 1 : bus_factor(p.collective, p.size));
}

void print_header(std::FILE* to, const Problem& p, const std::string& transport, const std::string& version) {
  const bool moves = p.messages || p.collective != Collective::barrier;
  std::string what = moves ? fmt::format(", {}", name_of(p.dtype)) : "";
  if (!p.messages && reduces(p.collective)) what += fmt::format(" {}", name_of(p.op));
  if (!p.messages && rooted(p.collective)) what += fmt::format(", root {}", p.root);
  if (p.messages) what += fmt::format(", between ranks 0 and {}", p.size - 1);
  fmt::print(to, "# unisono {}: {}, {} rank{}, transport {}{}\n", version, name_of(p), p.size, p.size == 1 ? "" : "s",
             transport, what);
  fmt::print(to, "# time: the median over calls {}; 5 % of them took less than p5, 5 % more than p95\n",
             p.messages ? "as rank 0 sees it" : "of the slowest rank");
  const std::string_view how =
      p.messages ? "lat is half of a message there and back, bw a message of up to 64 in flight one way"
                 : "out of place, or in place; algorithm: what ran (most often)";
  fmt::print(to, "# how: {}\n", how);
  fmt::print(to, "# GB/s are 10^9 bytes a second\n#\n");
  constexpr std::string_view kColumns = "# {:>8}  {:>10} {:>3}  {:>7}  {:>7}  {:>7}  {:>6}  {:>6}  {:>6}  {}\n";
  fmt::print(to, kColumns, "size", "count", "how", "time", "p5", "p95", "algbw", "busbw", "#wrong", "algorithm");
  fmt::print(to, kColumns, "(B)", "(elements)", "", "(us)", "(us)", "(us)", "(GB/s)", "(GB/s)", "", "");
  std::fflush(to);
}

void print_row(std::FILE* to, const BenchRow& row) {
  const Problem& p = row.problem;
  const Measurement& m = row.measured;
  const auto time = [](double seconds) { return number(seconds * 1e6, 7); };
  fmt::print(to, "{:>10}  {:>10} {:>3}  {:>7}  {:>7}  {:>7}  {:>6}  {:>6}  {:>6}  {}\n", total_bytes(p), p.count,
             short_name(row.mode), time(m.seconds), time(m.p5), time(m.p95),
             number(algorithm_bandwidth(p, m.seconds), 6), number(bus_bandwidth(p, m.seconds), 6),
             m.wrong ? fmt::format("{}", *m.wrong) : "N/A", algorithm_text(m));
  std::fflush(to);
}

std::int64_t total_wrong(const std::vector<BenchRow>& rows) {
  std::int64_t wrong = 0;
  for (const BenchRow& row : rows) wrong += row.measured.wrong.value_or(0);
  return wrong;
}

void print_footer(std::FILE* to, const std::vector<BenchRow>& rows) {
  double sum = 0;
  bool checked = false;
  for (const BenchRow& row : rows) {
    const Measurement& m = row.measured;
    sum += bus_bandwidth(row.problem, m.seconds);
    checked |= m.wrong.has_value();
    if (m.algorithms.size() < 2) continue;
    std::string shares;
    for (const auto& [name, calls] : m.algorithms)
      shares +=
          fmt::format("{} {} {:.1f} %", shares.empty() ? "" : ",", name,
                      100.0 * static_cast<double>(calls) / static_cast<double>(std::max<std::int64_t>(m.calls, 1)));
    fmt::print(to, "# {} {}:{}\n", total_bytes(row.problem), short_name(row.mode), shares);
  }
  if (checked)
    fmt::print(to, "# Out of bounds values : {} {}\n", total_wrong(rows), total_wrong(rows) == 0 ? "OK" : "FAILED");
  fmt::print(to, "# Avg bus bandwidth    : {:.6g}\n", rows.empty() ? 0.0 : sum / static_cast<double>(rows.size()));
  std::fflush(to);
}

std::string to_json(const std::vector<BenchRow>& rows) {
  std::string text;
  for (const BenchRow& row : rows) text += (text.empty() ? "[\n" : ",\n") + row_json(row).dump();
  return (text.empty() ? "[" : text + "\n") + "]\n";
}

}  // namespace unisono::cli
