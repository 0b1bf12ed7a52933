#include "cli/plan_explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/caches.h"
#include "plan/host_rules.h"
#include "rendezvous/host_identity.h"
#include "tuning/topology.h"
#include "unisono/version.hpp"

namespace unisono::cli {

namespace {

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

/// Whether all ranks are on one host, where they share cores, though they may not share memory.
bool all_on_one_host(const std::vector<std::int32_t>& layout) {
  return std::ranges::all_of(layout, [](std::int32_t host) { return host == 0; });
}

/// What a group would add to the built-in table.
struct Additions {
  std::string of_host, measured;
  std::string text() const { return of_host + (of_host.empty() || measured.empty() ? "" : ";") + measured; }
};

/// What this host's cache knows of the layout, and what is set by hand.
Result<Additions> find_known(const ExplainRequest& request, Explanation& said) {
  const Config& config = request.config;
  const auto layout = layout_of(request);
  if (config.tuning != "off" && !config.deterministic) said.record = find_record(config, layout, request.nodes);
  Additions rules{"", said.record ? said.record->rules : ""};
  const bool by_hand = !config.constants.empty();
  const std::string text = by_hand ? config.constants : said.record ? said.record->constants : "";
  if (!text.empty()) {
    auto constants = plan::parse_cost_model(text);
    if (!constants) return constants.status().with_context(by_hand ? "UNISONO_CONSTANTS" : "the cache's constants");
    said.constants = std::move(constants).value();
    said.origin = by_hand ? "UNISONO_CONSTANTS" : "measured between these hosts, kept on disk";
    if (by_hand && !request.question.one_host && !config.deterministic)
      rules.measured = plan::rules_from(*said.constants, layout, slice_of(config));
  }
  if (config.deterministic || !all_on_one_host(layout)) return rules;
  said.cores = request.cores;
  const auto cores = static_cast<std::size_t>(request.cores);
  rules.of_host = plan::rules_of_one_host(layout.size(), cores, second_cache_bytes());
  return rules;
}

/// By algorithm, microseconds: what `bench --tune` measured at the size nearest to the one in question, and that size.
std::map<std::string, double> measured_near(const Explanation& known, std::int64_t& bytes) {
  const plan::Question& q = known.question;
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

void list_rules(Explanation& said, const plan::Selector& table, const Additions& added) {
  // Rules of the host come before those that were measured, which no rule itself says.
  const auto of_host = plan::Selector::parse("", added.of_host);
  std::size_t first =
      of_host ? static_cast<std::size_t>(std::ranges::count(of_host->rules(), plan::Origin::tuned, &plan::Rule::origin))
              : 0;
  for (const plan::Rule& rule : table.rules()) {
    const bool host = rule.origin == plan::Origin::tuned && first > 0;
    if (host) first--;
    if (rule.collective != said.question.collective) continue;
    said.rules.push_back({rule, rule.origin == plan::Origin::built_in   ? "built-in"
                                : rule.origin == plan::Origin::override ? "UNISONO_ALGORITHM"
                                : host                                  ? "shared cores"
                                                                        : "measured"});
  }
}

/// All algorithms of the collective that can run there, with what is known of each.
void add_candidates(Explanation& said, const ExplainRequest& request) {
  const plan::Question& q = said.question;
  std::map<const plan::Algorithm*, double> expected;
  if (said.constants && !q.one_host && q.ranks <= plan::kMostRanksToExpect) {
    const std::int64_t sizes[] = {q.bytes};
    const auto all = plan::expect(*said.constants, q.collective, layout_of(request), sizes, slice_of(request.config));
    for (const plan::Expectation& e : all[0]) expected[e.algorithm] = e.seconds;
  }
  const auto measured = measured_near(said, said.measured_bytes);
  plan::Question possible = q;
  possible.peer_memory = q.one_host && request.config.peer_memory;  // whether ranks may, they find out when they meet
  for (const plan::Algorithm& a : plan::algorithms()) {
    if (a.collective != q.collective || !plan::why_not(a, possible).empty()) continue;
    PossibleAlgorithm candidate{&a, a.cost({q.ranks, 0, request.root, request.hosts, request.nodes}), {}, {}};
    if (const auto e = expected.find(&a); e != expected.end()) candidate.expected = e->second;
    if (const auto m = measured.find(std::string(a.name)); m != measured.end()) candidate.measured = m->second * 1e-6;
    said.candidates.push_back(candidate);
  }
}

}  // namespace

std::vector<std::int32_t> layout_of(const ExplainRequest& request) {
  if (!request.hosts.empty()) return request.hosts;
  std::vector<std::int32_t> layout(static_cast<std::size_t>(request.question.ranks), 0);
  if (!request.question.one_host) std::iota(layout.begin(), layout.end(), 0);
  return layout;
}

Result<Explanation> explain_choice(const ExplainRequest& request) {
  Explanation said;
  said.question = request.question;
  plan::Question& q = said.question;
  const auto rules = find_known(request, said);
  if (!rules) return rules.status();
  const auto table = plan::Selector::parse(request.config.algorithm, rules->text());
  if (!table) return table.status().with_context("UNISONO_ALGORITHM, or what was measured");
  list_rules(said, *table, *rules);
  // As groups do: what the user names is chosen, everything else competes with what reads peers'
  // memory.
  const bool reach = q.one_host && request.config.peer_memory;
  const bool named =
      std::ranges::any_of(said.rules, [](const ListedRule& r) { return r.rule.origin == plan::Origin::override; });
  q.peer_memory = reach && named;
  q.contested = reach && !named;
  said.choice = table->explain(q);
  plan::Question open = q;
  open.peer_memory = reach;
  if (plan::Choice other = table->explain(open);
      q.contested && other.algorithm->place == plan::Place::peer_memory && q.ranks > 1)
    said.rival = std::move(other);
  said.goes_inline = plan::goes_inline(q, request.config.algorithm);
  add_candidates(said, request);
  return said;
}

}  // namespace unisono::cli
