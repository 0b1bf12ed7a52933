#include "group/tuned.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/cost_model.h"
#include "plan/host_rules.h"
#include "plan/select.h"
#include "tuning/record.h"
#include "tuning/topology.h"

namespace unisono::detail {

using nlohmann::json;

std::string to_text(const Tuned& tuned) {
  return json{{"rules", tuned.rules},
              {"measure", tuned.measure},
              {"streams", tuned.streams},
              {"count_streams", tuned.count_streams}}
      .dump();
}

Tuned parse_tuned(std::string_view text) {
  // Nothing is what a rank 0 says that has nothing to say, and one that could not read the introductions.
  const json j = json::parse(text, nullptr, false);
  if (!j.is_object()) return {};
  return {j.value("rules", ""), j.value("measure", false), j.value("streams", 0), j.value("count_streams", false)};
}

namespace {
/// By constants that the user set; ContextImpl has refused those that cannot be understood.
Tuned by_hand(const Config& config, const std::string& topology, const Logger& log) {
  const auto model = plan::parse_cost_model(config.constants);
  const std::vector<std::int32_t> hosts = tuning::hosts_of(topology);
  const bool one_host = std::all_of(hosts.begin(), hosts.end(), [](std::int32_t host) { return host == 0; });
  if (!model || one_host) return {};  // constants say nothing of shared memory
  const std::int64_t slice = config.slice_bytes > 0 ? config.slice_bytes : plan::kUsualSlice;
  Tuned tuned;
  tuned.rules = plan::rules_from(*model, hosts, slice);
  log.info(fmt::format("algorithms are chosen by UNISONO_CONSTANTS: {}",
                       tuned.rules.empty() ? "as the built-in table says" : tuned.rules));
  return tuned;
}
}  // namespace

void add_rules_of_one_host(Tuned& tuned, const Config& config, std::size_t ranks, std::size_t processors,
                           std::size_t second_cache) {
  if (config.deterministic || processors == 0) return;
  tuned.rules.insert(0, tuned.rules.empty() ? "" : ";")
      .insert(0, plan::rules_of_one_host(ranks, processors, second_cache));
}

Tuned look_for_tuned(const Config& config, const std::string& topology, bool several_hosts, const Logger& log) {
  // Deterministic: no algorithm may depend on what was measured, in shared memory either.
  if (config.deterministic) return {};
  if (!config.constants.empty()) return by_hand(config, topology, log);
  if (config.tuning == "off") return {};
  Tuned tuned;
  tuned.measure = several_hosts && config.tuning == "auto";
  tuned.count_streams = tuned.measure && config.tcp_streams == 0;
  if (config.cache.empty()) return tuned;
  const auto file = tuning::file_of(config.cache, topology);
  const auto record = tuning::read(file, topology);
  Status refused = record.status();
  if (record && !*record) return tuned;
  if (record)
    if (const auto parsed = plan::Selector::parse("", (*record)->rules); !parsed)
      refused = parsed.status().with_context(file.string());
  if (!refused.ok()) {
    log.warn(fmt::format("measured rules are not used, {} instead: {}. `unisono bench --tune` writes new ones",
                         tuned.measure ? "links are measured anew" : "the built-in table is", refused.message()));
    return tuned;
  }
  log.info(fmt::format("algorithms are chosen by {} ({}, {})", file.string(), (*record)->by, (*record)->made));
  return {(*record)->rules, false, (*record)->streams, false};
}

}  // namespace unisono::detail
