#include "cli/bench/table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

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

/// What a rank must send at least, relative to the size of the collective: makes different collectives and numbers of
/// ranks comparable with the speed of the hardware.
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

std::string op_text(const Problem& p) { return reduces(p.collective) ? std::string(name_of(p.op)) : "none"; }

std::string half_text(const Problem& p, const std::optional<Measurement>& m) {
  if (!m) return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", "-", "-", "-", "-");
  const std::string wrong = m->wrong ? fmt::format("{}", *m->wrong) : "N/A";
  return fmt::format("  {:>7}  {:>6}  {:>6}  {:>6}", number(m->seconds * 1e6, 7),
                     number(algorithm_bandwidth(p, m->seconds), 6), number(bus_bandwidth(p, m->seconds), 6), wrong);
}

/// Six digits: more than a clock knows, and short to read.
double rounded(double value) { return std::stod(fmt::format("{:.6g}", value)); }

nlohmann::ordered_json half_json(const BenchRow& row, const Measurement& m, bool in_place) {
  const Problem& p = row.problem;
  nlohmann::ordered_json j;
  j["collective"] = name_of(p.collective);
  j["ranks"] = p.size;
  j["bytes"] = total_bytes(p);
  j["dtype"] = name_of(p.dtype);
  j["op"] = op_text(p);
  j["algorithm"] = row.algorithm;
  j["transport"] = row.transport;
  j["time_us"] = rounded(m.seconds * 1e6);
  j["algbw_gbps"] = rounded(algorithm_bandwidth(p, m.seconds));
  j["busbw_gbps"] = rounded(bus_bandwidth(p, m.seconds));
  j["wrong"] = m.wrong ? nlohmann::ordered_json(*m.wrong) : nlohmann::ordered_json(nullptr);
  j["in_place"] = in_place;
  return j;
}

}  // namespace

double algorithm_bandwidth(const Problem& p, double seconds) {
  return seconds > 0 ? static_cast<double>(total_bytes(p)) / seconds / 1e9 : 0;
}
double bus_bandwidth(const Problem& p, double seconds) {
  return algorithm_bandwidth(p, seconds) * bus_factor(p.collective, p.size);
}

void print_header(std::FILE* to, const Problem& p, const std::string& transport, const std::string& version) {
  fmt::print(to, "# unisono {}: {}, {} rank{}, transport {}\n", version, name_of(p.collective), p.size,
             p.size == 1 ? "" : "s", transport);
  fmt::print(to, "# time: the median over iterations of the slowest rank; GB/s are 10^9 bytes a second\n#\n");
  fmt::print(to, "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:^31}  {:^31}\n", "", "", "", "", "", "out-of-place",
             "in-place");
  fmt::print(to, "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "size", "count", "type", "redop", "root");
  for (int i = 0; i < 2; i++) fmt::print(to, "  {:>7}  {:>6}  {:>6}  {:>6}", "time", "algbw", "busbw", "#wrong");
  fmt::print(to, "\n# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}", "(B)", "(elements)", "", "", "");
  for (int i = 0; i < 2; i++) fmt::print(to, "  {:>7}  {:>6}  {:>6}  {:>6}", "(us)", "(GB/s)", "(GB/s)", "");
  fmt::print(to, "\n");
  std::fflush(to);
}

void print_row(std::FILE* to, const BenchRow& row) {
  const Problem& p = row.problem;
  fmt::print(to, "{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", total_bytes(p), p.count, name_of(p.dtype), op_text(p),
             rooted(p.collective) ? p.root : -1, half_text(p, row.out_of_place), half_text(p, row.in_place));
  std::fflush(to);
}

std::int64_t total_wrong(const std::vector<BenchRow>& rows) {
  std::int64_t wrong = 0;
  for (const BenchRow& row : rows) {
    wrong += row.out_of_place.wrong.value_or(0);
    if (row.in_place) wrong += row.in_place->wrong.value_or(0);
  }
  return wrong;
}

void print_footer(std::FILE* to, const std::vector<BenchRow>& rows) {
  double sum = 0;
  int results = 0;
  bool checked = false;
  for (const BenchRow& row : rows) {
    sum += bus_bandwidth(row.problem, row.out_of_place.seconds);
    results++;
    checked |= row.out_of_place.wrong.has_value();
    if (!row.in_place) continue;
    sum += bus_bandwidth(row.problem, row.in_place->seconds);
    results++;
  }
  if (checked)
    fmt::print(to, "# Out of bounds values : {} {}\n", total_wrong(rows), total_wrong(rows) == 0 ? "OK" : "FAILED");
  fmt::print(to, "# Avg bus bandwidth    : {:.6g}\n", results == 0 ? 0.0 : sum / results);
  std::fflush(to);
}

std::string to_json(const std::vector<BenchRow>& rows) {
  std::string text;
  const auto add = [&](const BenchRow& row, const Measurement& m, bool in_place) {
    text += (text.empty() ? "[\n" : ",\n") + half_json(row, m, in_place).dump();
  };
  for (const BenchRow& row : rows) {
    add(row, row.out_of_place, false);
    if (row.in_place) add(row, *row.in_place, true);
  }
  return (text.empty() ? "[" : text + "\n") + "]\n";
}

}  // namespace unisono::cli
