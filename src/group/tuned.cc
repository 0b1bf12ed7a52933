#include "group/tuned.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "plan/select.h"
#include "tuning/record.h"

namespace unisono::detail {

using nlohmann::json;

std::string to_text(const Tuned& tuned) { return json{{"rules", tuned.rules}, {"measure", tuned.measure}}.dump(); }

Tuned parse_tuned(std::string_view text) {
  // Nothing is what a rank 0 says that has nothing to say, and one that could not read the introductions.
  const json j = json::parse(text, nullptr, false);
  if (!j.is_object()) return {};
  return {j.value("rules", ""), j.value("measure", false)};
}

Tuned look_for_tuned(const Config& config, const std::string& topology, bool several_hosts, const Logger& log) {
  // Deterministic: no algorithm may depend on what was measured, in shared memory either.
  if (config.tuning == "off" || config.deterministic || config.cache.empty()) return {};
  Tuned tuned;
  tuned.measure = several_hosts && config.tuning == "auto";
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
  return {(*record)->rules, false};
}

}  // namespace unisono::detail
