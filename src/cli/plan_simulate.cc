/// `unisono plan --simulate`: times of algorithms on a model of a network.

#include <fmt/ranges.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/plan_options.h"
#include "simulate/simulate.h"

namespace unisono::cli {

namespace {

simulate::Model model_of(const PlanOptions& o) {
  std::string text = o.simulate;
  if (text.ends_with(".json")) {
    std::ifstream file(text);
    if (!file) throw UsageError(fmt::format("--simulate {}: the file cannot be read", text));
    text.assign(std::istreambuf_iterator<char>(file), {});
    if (!text.starts_with('{'))
      throw UsageError(fmt::format("--simulate {}: the file must hold a JSON object", o.simulate));
  }
  return or_usage_error(simulate::parse_model(text), "--simulate: ");
}

std::vector<std::int64_t> sizes_of(const PlanOptions& o) {
  const std::string text = o.sizes.empty() ? o.bytes : o.sizes;
  std::vector<std::int64_t> sizes;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    sizes.push_back(or_usage_error(plan::parse_size(text.substr(begin, end - begin)), "--sizes: "));
    begin = end + 1;
  }
  return sizes;
}

/// --hosts or --per-host; one for all where the model is of one host.
std::vector<std::int32_t> hosts_of(const PlanOptions& o, const simulate::Model& model) {
  auto hosts = cli::hosts_of(o);
  if (hosts.empty() && model.numa.nodes > 0) hosts.resize(static_cast<std::size_t>(o.ranks), 0);
  return hosts;
}

/// One algorithm, or all that can run on these hosts.
std::vector<const plan::Algorithm*> candidates(const PlanOptions& o, const std::vector<std::int32_t>& hosts,
                                               const simulate::Model& model) {
  const Collective collective = collective_of(o);
  const std::int32_t count = hosts.empty() ? o.ranks : hosts.back() + 1;
  if (o.algorithm != "all" && !o.algorithm.empty()) {
    const plan::Algorithm& algorithm = named_algorithm(o);
    if (plan::needs_one_host(algorithm.place) && count > 1)
      throw UsageError(
          fmt::format("{} works in memory that all ranks share, and these are on {} hosts: --hosts {} puts them on one",
                      algorithm.name, count, o.ranks));
    return {&algorithm};
  }
  std::vector<const plan::Algorithm*> found;
  for (const plan::Algorithm& a : plan::algorithms()) {
    if (a.collective != collective) continue;
    if (plan::needs_one_host(a.place) ? count != 1 : false) continue;
    if (a.place == plan::Place::several_hosts && (count == 1 || count == o.ranks)) continue;
    if (a.place == plan::Place::several_nodes && model.numa.nodes < 2) continue;
    found.push_back(&a);
  }
  return found;
}

struct Row {
  const plan::Algorithm* algorithm;
  std::int64_t bytes;
  std::optional<simulate::Answer> answer;
  std::string text;  ///< which ranks were simulated, or why none
};

std::vector<Row> rows_of(const PlanOptions& o, const simulate::Model& model) {
  simulate::Options options;
  if (!o.slice.empty()) options.slice = or_usage_error(plan::parse_size(o.slice), "--slice: ");
  if (!o.slice.empty() && options.slice < 1) throw UsageError("--slice: at least one byte");
  options.how = o.how == "every-rank" ? simulate::How::every_rank
                : o.how == "one-host" ? simulate::How::one_host
                                      : simulate::How::automatic;
  const std::vector<std::int32_t> hosts = hosts_of(o, model), nodes = nodes_of(o);
  std::vector<Row> rows;
  for (const plan::Algorithm* algorithm : candidates(o, hosts, model)) {
    const auto simulation = simulate::Simulation::make(*algorithm, {o.ranks, 0, o.root, hosts, nodes}, model);
    for (const std::int64_t bytes : sizes_of(o)) {
      Row row{algorithm, bytes, std::nullopt, {}};
      const auto answer = simulation ? simulation->time(bytes, options) : Result<simulate::Answer>(simulation.status());
      if (answer) row.answer = *answer;
      row.text = answer ? simulation->describe(*answer) : "not simulated: " + answer.status().message();
      if (answer && model.numa.nodes > 1)
        row.text +=
            fmt::format("; {:.4g} S between nodes", answer->timing.crossed / std::max(1.0, static_cast<double>(bytes)));
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

double per_cent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

nlohmann::ordered_json to_json(const PlanOptions& o, const simulate::Model& model, const Row& row) {
  nlohmann::ordered_json j;
  j["collective"] = o.collective;
  j["ranks"] = o.ranks;
  j["bytes"] = row.bytes;
  j["algorithm"] = row.algorithm->name;
  j["model"] = simulate::to_text(model);
  j["how"] = row.text;
  if (!row.answer) {
    j["time_us"] = nullptr;
    return j;
  }
  const simulate::Answer& a = *row.answer;
  const simulate::Timing& t = a.timing;
  j["estimate"] = a.estimate;
  j["time_us"] = t.seconds * 1e6;
  j["algbw_gbps"] = t.seconds > 0 ? static_cast<double>(row.bytes) / t.seconds / 1e9 : 0;
  j["messages"] = a.messages;
  j["slices"] = a.slices;
  j["slice_bytes"] = a.slice;
  j["last_rank"] = t.last_rank;
  j["path"] = {{"messages", t.path.messages},
               {"latency_us", t.path.latency * 1e6},
               {"transfer_us", t.path.transfer * 1e6},
               {"compute_us", t.path.compute * 1e6},
               {"queue_us", t.path.queue * 1e6}};
  j["busiest"] = t.busiest;
  j["busiest_share"] = t.seconds > 0 ? t.busy / t.seconds : 0;
  if (model.numa.nodes > 0) j["bytes_between_nodes"] = t.crossed;
  j["events"] = t.events;
  return j;
}

void print_table(const PlanOptions& o, const simulate::Model& model, const std::vector<Row>& rows) {
  const auto hosts = hosts_of(o, model);
  fmt::print("# {} between {} ranks on {} hosts\n# {}\n", o.collective, o.ranks,
             hosts.empty() ? o.ranks : hosts.back() + 1, simulate::to_text(model));
  fmt::print("# {:<22} {:>9} {:>12} {:>9} {:>10}   {:>8} {:>7} {:>7} {:>7} {:>6}  {:<32}  {}\n", "", "bytes", "time",
             "algbw", "messages", "transfer", "latency", "compute", "queue", "msgs", "busiest", "simulated");
  fmt::print("# {:<22} {:>9} {:>12} {:>9} {:>10}   {:>40}\n", "", "", "(us)", "(GB/s)", "of all",
             "along the longest chain, % of its time");
  for (const Row& row : rows) {
    fmt::print("  {:<22} {:>9} ", row.algorithm->name, plan::format_size(row.bytes));
    if (!row.answer) {
      fmt::print("{:>12}   {}\n", "-", row.text);
      continue;
    }
    const simulate::Timing& t = row.answer->timing;
    const simulate::Path& p = t.path;
    fmt::print("{:>12.2f} {:>9.3f} {:>10.4g}   {:>8.1f} {:>7.1f} {:>7.1f} {:>7.1f} {:>6}  {:<32}  {}\n",
               t.seconds * 1e6, t.seconds > 0 ? static_cast<double>(row.bytes) / t.seconds / 1e9 : 0,
               row.answer->messages, per_cent(p.transfer, t.seconds), per_cent(p.latency, t.seconds),
               per_cent(p.compute, t.seconds), per_cent(p.queue, t.seconds), p.messages,
               fmt::format("{} ({:.0f} %)", t.busiest, per_cent(t.busy, t.seconds)), row.text);
  }
}

}  // namespace

std::vector<std::string_view> preset_names() {
  std::vector<std::string_view> names;
  for (const simulate::Preset& preset : simulate::presets()) names.push_back(preset.name);
  return names;
}

/// 1 when there is nothing that could be simulated.
int simulate(const PlanOptions& o) {
  check_group(o);
  const simulate::Model model = model_of(o);
  const std::vector<Row> rows = rows_of(o, model);
  if (o.json) {
    nlohmann::ordered_json json = nlohmann::ordered_json::array();
    for (const Row& row : rows) json.push_back(to_json(o, model, row));
    fmt::print("{}\n", json.dump());
  } else {
    print_table(o, model, rows);
  }
  for (const Row& row : rows)
    if (row.answer) return 0;
  return 1;
}

}  // namespace unisono::cli
