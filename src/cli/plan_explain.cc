#include "cli/plan_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>

#include "plan/cost_model.h"
#include "rendezvous/host_identity.h"
#include "tuning/record.h"
#include "tuning/topology.h"
#include "unisono/version.hpp"

namespace unisono::cli {

namespace {

/// What the caches of this host know of a layout, and what is set by hand.
struct Known {
  std::optional<tuning::Record> record;
  std::optional<plan::CostModel> constants;
  std::string origin;  ///< of the constants
  std::string rules;   ///< that a group would add to the built-in table
};

/// The newest record of this version, of that layout, that this host is part of. Which hosts the others will be, nobody can know here.
std::optional<tuning::Record> find_record(const Config& config, const std::vector<std::int32_t>& layout,
                                          const std::vector<std::int32_t>& nodes) {
  const auto here = rendezvous::this_host();
  for (tuning::Record& record : tuning::read_all(config.cache)) {
    const bool ours = here && record.topology.find(fmt::format(" {}: ", here->host)) != std::string::npos;
    const bool version_fits = record.topology.starts_with(fmt::format("unisono {} ", version()));
    const bool nodes_fit =
        nodes.empty() ? !tuning::several_nodes(record.topology) : tuning::nodes_of(record.topology) == nodes;
    if (ours && version_fits && nodes_fit && tuning::hosts_of(record.topology) == layout) return std::move(record);
  }
  return std::nullopt;
}

std::int64_t slice_of(const Config& config) { return config.slice_bytes > 0 ? config.slice_bytes : plan::kUsualSlice; }

Result<Known> known_of(const ExplainRequest& request) {
  Known known;
  const Config& config = request.config;
  const auto layout = layout_of(request);
  if (config.tuning != "off" && !config.deterministic) known.record = find_record(config, layout, request.nodes);
  if (known.record) known.rules = known.record->rules;
  const bool by_hand = !config.constants.empty();
  const std::string text = by_hand ? config.constants : known.record ? known.record->constants : "";
  if (text.empty()) return known;
  auto constants = plan::parse_cost_model(text);
  if (!constants) return constants.status().with_context(by_hand ? "UNISONO_CONSTANTS" : "the cache's constants");
  known.constants = std::move(constants).value();
  known.origin = by_hand ? "UNISONO_CONSTANTS" : "measured between these hosts, kept on disk";
  if (by_hand && !request.question.one_host && !config.deterministic)
    known.rules = plan::rules_from(*known.constants, layout, slice_of(config));
  return known;
}

/// By algorithm, microseconds: what `bench --tune` measured at the size nearest to the one in question, and that size.
std::map<std::string, double> measured_near(const Known& known, const plan::Question& q, std::int64_t& bytes) {
  std::map<std::string, double> times;
  const auto rows = known.record ? nlohmann::json::parse(known.record->measured, nullptr, false) : nlohmann::json();
  if (!rows.is_array()) return times;
  const auto away = [&](std::int64_t size) {
    return std::abs(std::log2(static_cast<double>(std::max<std::int64_t>(size, 1))) -
                    std::log2(static_cast<double>(std::max<std::int64_t>(q.bytes, 1))));
  };
  bytes = -1;
  for (const auto& row : rows) {
    if (row.value("collective", "") != name_of(q.collective)) continue;
    if (row.value("memory", "") != (q.shared_buffers ? "shared" : "private")) continue;
    const auto size = row.value("bytes", std::int64_t{0});
    if (bytes >= 0 && away(size) > away(bytes)) continue;
    if (size != bytes) times.clear();
    bytes = size;
    times[row.value("algorithm", "")] = row.value("time_us", 0.0);
  }
  return times;
}

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

void print_constants(const Known& known, const ExplainRequest& request) {
  if (known.record) {
    fmt::print("\nmeasured for this layout ({}, {}), among\n", known.record->by, known.record->made);
    for (std::size_t at = 0; at < known.record->topology.size();) {
      const std::size_t end = known.record->topology.find('\n', at);
      fmt::print("  {}\n", known.record->topology.substr(at, end - at));
      at = end + 1;
    }
  }
  if (known.constants) {
    fmt::print("\nconstants ({}): alpha, gap, beta\n  {}\n", known.origin, plan::to_text(*known.constants));
  } else if (!request.question.one_host) {
    fmt::print(
        "\nno constants are known: a group of such hosts measures them when it is made ({})\n",
        request.config.tuning == "auto" ? "UNISONO_TUNING=auto" : "not with UNISONO_TUNING=" + request.config.tuning);
  } else if (!known.record) {
    fmt::print("\nnothing was measured for {} ranks on this host: unisono bench --tune -n {}\n", request.question.ranks,
               request.question.ranks);
  }
}

/// All algorithms of the collective that can run here, with what is known of each.
void print_costs(const Known& known, const ExplainRequest& request, const plan::Algorithm* chosen) {
  const plan::Question& q = request.question;
  std::map<const plan::Algorithm*, double> expected;
  if (known.constants && !q.one_host && q.ranks <= plan::kMostRanksToExpect) {
    const std::int64_t sizes[] = {q.bytes};
    const auto all = plan::expect(*known.constants, q.collective, layout_of(request), sizes, slice_of(request.config));
    for (const plan::Expectation& e : all[0]) expected[e.algorithm] = e.seconds;
  }
  std::int64_t near = 0;
  const auto measured = measured_near(known, q, near);
  const std::string head = measured.empty() ? "measured" : fmt::format("measured at {}", plan::format_size(near));
  fmt::print("\n  {:<22} {:>6} {:>7}  {:>10}  {:>18}\n", "algorithm", "steps", "bytes", "expected", head);
  plan::Question possible = q;
  possible.peer_memory = q.one_host;  // whether ranks may, they find out when they meet
  for (const plan::Algorithm& a : plan::algorithms()) {
    if (a.collective != q.collective || !plan::why_not(a, possible).empty()) continue;
    const plan::Cost cost = a.cost({q.ranks, 0, request.root, request.hosts, request.nodes});
    const auto e = expected.find(&a);
    const auto m = measured.find(std::string(a.name));
    fmt::print("{} {:<22} {:>6} {:>7.4g}  {:>10}  {:>18}\n", &a == chosen ? '*' : ' ', a.name,
               cost.steps == plan::Cost::kNotCounted ? "-" : std::to_string(cost.steps), cost.volume,
               e == expected.end() ? "-" : time_text(e->second),
               m == measured.end() ? "-" : time_text(m->second * 1e-6));
  }
  fmt::print("  * would run; bytes: by the busiest rank, as a multiple of {}\n", plan::format_size(q.bytes));
}

}  // namespace

std::vector<std::int32_t> layout_of(const ExplainRequest& request) {
  if (!request.hosts.empty()) return request.hosts;
  std::vector<std::int32_t> layout(static_cast<std::size_t>(request.question.ranks), 0);
  if (!request.question.one_host) std::iota(layout.begin(), layout.end(), 0);
  return layout;
}

Status explain_choice(const ExplainRequest& request) {
  const auto known = known_of(request);
  if (!known) return known.status();
  const auto table = plan::Selector::parse(request.config.algorithm, known->rules);
  if (!table) return table.status().with_context("UNISONO_ALGORITHM, or what was measured");
  const plan::Question& q = request.question;
  const plan::Choice choice = table->explain(q);
  fmt::print("{} of {} bytes between {} ranks {}: {}\n", name_of(q.collective), plan::format_size(q.bytes), q.ranks,
             q.one_host ? "that share memory" : "over a network", choice.algorithm->name);
  fmt::print("  why    {}\n", choice.reason);
  fmt::print("  what   {} ({})\n", choice.algorithm->summary, choice.algorithm->source);
  if (plan::goes_inline(q, request.config.algorithm))
    fmt::print(
        "  but    so little travels with the announcement of the operation, without an algorithm (inline); this "
        "one runs where counts differ between ranks, and where it is named\n");
  print_constants(*known, request);
  print_costs(*known, request, choice.algorithm);
  fmt::print("\nthe table for {}, a later line wins:\n", name_of(q.collective));
  for (const plan::Rule& rule : table->rules()) {
    if (rule.collective != q.collective) continue;
    fmt::print("  {}{}\n", plan::to_text(rule),
               rule.origin == plan::Origin::built_in ? ""
               : rule.origin == plan::Origin::tuned  ? "   (measured)"
                                                     : "   (UNISONO_ALGORITHM)");
  }
  return {};
}

}  // namespace unisono::cli
