#include "group/tuned.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/cost_model.h"
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
/// Over sockets between ranks on one host, with a core each: a message costs as much as some ten KiB, so fewer of them win for longer than over the links between hosts, of which the built-in
/// table is (docs/design/0007-between-hosts.md).
constexpr std::string_view kRulesOfLoopback =
    "reduce@net[3]:64K-192K=binomial;"
    "broadcast@net[3]:0-192K=flat,192K-4M=scatter_all_gather;"
    "broadcast@net[4]:0-384K=binomial;"
    "broadcast@net[5-8]:0-320K=binomial;"
    "broadcast@net[9-]:0-160K=binomial;"
    "all_gather@net[4]:0-512K=circulant;"
    "reduce_scatter@net[4]:0-512K=circulant;"
    "all_to_all@net[6-11]:0-96K=bruck;"
    "all_to_all@net[12-]:0-160K=bruck";

/// A message costs the cores as much as some 40 KiB, and every round a change of ranks on a core: there trees, which have the fewest messages and leave
/// most ranks idle, are the fastest for long (docs/design/0007-between-hosts.md), and then whatever waits the least. In shared memory, too, who sends and
/// leaves does not wait for its turn again, and a round less is worth more than what it copies twice. (Nothing
/// that adds up in another order than the shared plans do: whose buffers lie where must not show in the bits.)
constexpr std::string_view kRulesOfTurns =
    "all_reduce@net[3]:0-512K=binomial,512K-3M=direct;"
    "all_reduce@net[4]:0-1536K=binomial,1536K-3M=direct;"
    "all_reduce@net[5-8]:0-1536K=binomial;"
    "all_reduce@net[9-]:0-2M=binomial,2M-=ring;"
    "reduce@net[3-]:0-=binomial;"
    "broadcast@net[3]:0-768K=binomial;"
    "broadcast@net[4]:0-6M=binomial;"
    "broadcast@net[5-7]:0-=binomial;"
    "broadcast@net[8]:0-40K=flat,40K-=binomial;"  // the root has sent all before anybody else needs the core
    "broadcast@net[9-16]:0-48K=flat,48K-=binomial;"
    "broadcast@net[17-]:0-=binomial;"
    "all_gather@net[3]:0-=ring;"
    "all_gather@net[4]:0-112K=circulant;"
    "all_gather@net[6]:0-112K=ring;"
    "all_gather@net[4-16]:112K-=ring;"
    "all_gather@net[7]:112K-320K=circulant;"
    "reduce_scatter@net[3]:0-=ring;"
    "reduce_scatter@net[4]:0-112K=circulant,112K-224K=ring;"
    "reduce_scatter@net[6]:0-112K=ring;"
    "reduce_scatter@net[5-8]:112K-=ring;"
    "reduce_scatter@net[9-16]:384K-=ring;"
    "all_to_all@net[32-]:160K-1M=bruck;"
    "scatter@net[3]:0-2M=binomial;"
    "scatter@net[4]:0-8K=binomial;"
    "all_reduce@shm[3-]:0-32K=staged_one_shot;"
    "all_reduce@shm[7-]:32K-=staged_two_shot;"
    "all_reduce@nodes[16-]:64K-=staged_nodes;"  // as without turns
    "reduce@shm[3]:2K-24K=staged_one_shot;"
    "reduce@shm[3-4]:128K-=staged_one_shot;"
    "reduce@shm[4]:2K-32K=staged_one_shot;"
    "reduce@shm[5-8]:2K-8M=staged_one_shot;"
    "reduce@shm[9-]:2K-4K=staged_one_shot,4K-16K=staged;"
    "broadcast@shm[3]:2K-64K=staged;"
    "broadcast@shm[4]:2K-96K=staged;"
    "broadcast@shm[5-]:2K-256K=staged;"
    "all_gather@shm[3]:2K-24K=staged;"
    "all_gather@shm[4]:2K-8K=staged;"
    "all_gather@shm[5-]:2K-64K=staged;"
    "reduce_scatter@shm[3-4]:2K-24K=staged;"
    "reduce_scatter@shm[5-]:2K-64K=staged;"
    "gather@shm[3-]:2K-512K=staged;"
    "gather@shm[4]:32K-2M=linear;"
    "gather@shm[5-8]:1K-2M=linear;"
    "scatter@shm[3-]:2K-256K=staged;"
    "scatter@shm[3-4]:192K-8M=linear;"
    "scatter@shm[5-]:256K-1536K=staged;"  // no contest, measured when all waited for its judge
    "all_to_all@shm[3-4]:2K-24K=staged;"
    "all_to_all@shm[5-]:2K-16K=staged;";
/// Where buffers are shared or the kernel may copy, all the same:
constexpr std::string_view kRulesOfTurnsOnMemory =
    "all_reduce@shm[3-4]:12K-=shared;"
    "all_reduce@shm[7-]:32K-=shared;"
    "all_reduce@shm[7-]:128K-=single_copy;"
    "reduce@shm[3]:24K-=shared;"
    "reduce@shm[4]:32K-=shared;"
    "reduce@shm[5-8]:96K-=shared;"
    "all_gather@shm[3]:128-2K=shared;"
    "all_gather@shm[6-]:64K-=shared;"
    "all_gather@shm[6-]:768K-=shared_by_owner;"
    "reduce_scatter@shm[3]:128-2K=shared;"
    "reduce_scatter@shm[3]:24K-=single_copy;"
    "gather@shm[3]:64K-=shared;"
    "gather@shm[4]:128K-=shared;"
    "gather@shm[5-8]:512K-=shared;"
    "gather@shm[9-]:128K-=shared;"
    "all_to_all@shm[3]:128-2K=shared;"
    "all_to_all@shm[3-8]:48K-128K=single_copy_pairs;"  // partners share a core
    "scatter@shm[3-]:64K-=shared";

/// Where the blocks of two ranks stay in a core's second cache, passing them on copies less than a tree, which sends whole vectors; and stages, or a contest
/// with the kernel, are faster than messages (docs/design/0006-choosing.md).
constexpr std::size_t kLargeCache = 1 << 20, kLargerCache = 2 << 20;
constexpr std::string_view kRulesOfLargeCaches =
    "all_reduce@net[3]:1280K-=ring;"
    "all_reduce@net[4]:640K-=ring;"
    "all_reduce@net[6]:448K-=ring;"
    "all_reduce@net[7-8]:6M-=binomial;"
    "all_gather@shm[6-8]:64K-192K=staged;"  // no contest, measured when all waited for its judge
    "all_gather@shm[9-]:64K-1536K=staged;"
    "gather@shm[3-]:2K-=staged;"
    "gather@shm[3]:96K-=single_copy;"  // a contest
    "gather@shm[4-8]:384K-=single_copy;"
    "scatter@shm[3-]:96K-=staged;"
    "scatter@shm[3-]:96K-=single_copy;";

/// There it does not take long either until all have begun, which is what shared buffers have to wait for: they win earlier, by the time from call to call.
constexpr std::string_view kSharedBuffersOfLargeCaches =
    ";all_reduce@shm[5-8]:12K-32K=shared;"
    "reduce@shm[5-8]:32K-96K=shared;"
    "broadcast@shm[3]:24K-96K=shared;"
    "broadcast@shm[4]:32K-96K=shared;"
    "reduce_scatter@shm[5-8]:20K-64K=shared;"
    "gather@shm[3]:10K-64K=shared;"
    "gather@shm[4]:8K-128K=shared;"
    "gather@shm[5-8]:24K-512K=shared;"
    "scatter@shm[3]:16K-64K=shared;"
    "scatter@shm[4]:6K-64K=shared;"
    "scatter@shm[5-8]:24K-64K=shared";

/// And some a little earlier still.
constexpr std::string_view kSharedBuffersOfLargerCaches =
    ";reduce@shm[3]:8K-24K=shared;"
    "reduce@shm[4]:14K-32K=shared;"
    "reduce@shm[5-8]:24K-32K=shared;"
    "broadcast@shm[3-4]:14K-32K=shared;"
    "broadcast@shm[5-8]:56K-256K=shared;"
    "all_gather@shm[3]:2K-24K=shared;"
    "all_gather@shm[5-8]:48K-64K=shared;"
    "reduce_scatter@shm[3]:2K-24K=shared;"
    "reduce_scatter@shm[4]:8K-24K=shared;"
    "all_to_all@shm[3]:2K-24K=shared;"
    "all_to_all@shm[4]:8K-24K=shared;"
    "all_to_all@shm[5-8]:12K-16K=shared";

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
  std::string rules(kRulesOfLoopback);
  if (ranks > processors) {
    rules.append(";").append(kRulesOfTurns);
    if (second_cache >= kLargeCache) rules.append(kRulesOfLargeCaches);
    rules.append(kRulesOfTurnsOnMemory);
    if (second_cache >= kLargeCache) rules.append(kSharedBuffersOfLargeCaches);
    if (second_cache >= kLargerCache) rules.append(kSharedBuffersOfLargerCaches);
  }
  tuned.rules.insert(0, tuned.rules.empty() ? "" : ";").insert(0, rules);
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
