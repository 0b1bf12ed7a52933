#include "plan/select.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "base/checked.h"
#include "plan/inline.h"
#include "plan/select_parser.h"

namespace unisono::plan {

namespace {

// The built-in table. Where the limits come from:
//   one shot or two    the extra additions of one shot against one more signal and wait: measured with a core for each rank, as is all of
//                      shared memory here; where ranks take turns, rules of their own follow (group/tuned.cc)
//   staged_return      lines that go to and fro between two caches: more bytes to write than with sums on one stage, which pays up to 8 ranks
//   recursive doubling or not    latency times log2 n against the bytes it sends more than once
//   circulant or ring  rings win once a block (S/n) takes several times as long as a message: about 128K
//   shared             copies less than staged, but who writes to others waits for all to have begun
//   shared_by_owner    reads a block from memory once, where shared reads it once a rank: from where that is longer than the wait for all to have begun
//   single_copy        from where it wins between cores that share no cache; in a group it runs only while it is faster (group/contest.h)
//   hierarchical       a link between hosts is slower than memory: what goes over it counts; with two hosts of two, few messages do
//   binomial reduce    between hosts of several ranks it sends the vector over each link once, the circulant one more often
//   flat barrier       as many steps as dissemination among 3 and 4 ranks, and fewer messages
//   staged_nodes       from where more cores read over a link between NUMA nodes than it feeds: simulated, docs/design/0010-numa.md
//   Bruck              blocks of at most 256 bytes between 8 ranks or more
constexpr std::string_view kBuiltIn =
    "all_reduce@shm[1-2]:0-16K=staged_one_shot,16K-24K=staged_return,24K-48K=staged_one_shot,48K-=staged_return;"
    "all_reduce@shm[3]:0-32K=staged_one_shot,32K-=staged_return;"
    "all_reduce@shm[4]:0-4K=staged_one_shot,4K-=staged_return;"
    "all_reduce@shm[5-]:0-6K=staged_one_shot,6K-=staged_two_shot;"
    "all_reduce@shm[5-12]:32K-=staged_return;"
    "all_reduce@shm[13-16]:8M-=staged_return;"
    "all_reduce@net[1-2]:0-768K=recursive_doubling,768K-=ring;"
    "all_reduce@net[3-4]:0-32K=recursive_doubling,32K-4M=circulant,4M-=ring;"
    "all_reduce@net[5-8]:0-64K=recursive_doubling,64K-1M=circulant,1M-=ring;"
    "all_reduce@net[9-16]:0-32K=recursive_doubling,32K-2M=circulant,2M-=ring;"
    "all_reduce@net[17-]:0-32K=recursive_doubling,32K-8M=circulant,8M-=ring;"
    "reduce@shm[1-2]:0-=staged_one_shot;"
    "reduce@shm[3-4]:0-128K=staged_one_shot,128K-=staged;"
    "reduce@shm[5-8]:0-16K=staged_one_shot,16K-=staged;"
    "reduce@shm[9-]:0-4K=staged_one_shot,4K-=staged;"
    "reduce@net:0-64K=binomial,64K-=reduce_scatter_gather;"
    "reduce@net[1-2]:0-=binomial;"
    "broadcast@shm:0-=staged;"
    "broadcast@net[1-3]:0-32K=flat,32K-=chain;"
    "broadcast@net[4-8]:0-32K=binomial,32K-4M=scatter_all_gather,4M-=chain;"
    "broadcast@net[9-]:0-32K=binomial,32K-=scatter_all_gather;"
    "all_gather@shm:0-=staged;"
    "all_gather@net[1-4]:0-512K=direct,512K-=ring;"
    "all_gather@net[5-16]:0-1M=circulant,1M-=ring;"
    "all_gather@net[17-]:0-4M=circulant,4M-=ring;"
    "reduce_scatter@shm:0-=staged;"
    "reduce_scatter@net[1-4]:0-512K=direct,512K-=ring;"
    "reduce_scatter@net[5-16]:0-1M=circulant,1M-=ring;"
    "reduce_scatter@net[17-]:0-4M=circulant,4M-=ring;"
    "gather@shm:0-=staged;"
    "gather@net[1-8]:0-=linear;"
    "gather@net[9-]:0-64K=binomial,64K-=linear;"
    "scatter@shm:0-=staged;"
    "scatter@net[1-8]:0-=linear;"
    "scatter@net[9-]:0-64K=binomial,64K-=linear;"
    "all_to_all@shm:0-=staged;"
    "all_to_all@net:0-=pairwise;"
    "all_to_all@net[8-15]:0-2K=bruck;"
    "all_to_all@net[16-31]:0-4K=bruck;"
    "all_to_all@net[32-]:0-8K=bruck;"
    "all_reduce@nodes[16-]:64K-=staged_nodes;"
    "broadcast@nodes[16]:16M-=staged_nodes;"
    "broadcast@nodes[17-]:64K-=staged_nodes;"
    "all_gather@nodes[16-]:64K-=staged_nodes;"
    "reduce_scatter@nodes[16-]:64K-=staged_nodes;"
    "all_reduce@shm:2K-=shared;"
    "reduce@shm:2K-=shared;"
    "broadcast@shm[1-4]:2K-=shared;"
    "broadcast@shm[5-8]:8K-=shared;"
    "broadcast@shm[9-]:16K-=shared;"
    "all_gather@shm[1-4]:2K-=shared;"
    "all_gather@shm[5-]:4K-=shared;"
    "all_gather@shm[2-]:768K-=shared_by_owner;"
    "reduce_scatter@shm:2K-=shared;"
    "gather@shm:2K-=shared;"
    "scatter@shm[1-4]:2K-=shared;"
    "scatter@shm[5-]:8K-=shared;"
    "all_to_all@shm:2K-=shared;"
    "all_reduce@shm:128K-=single_copy;"
    "reduce@shm[1-2]:2K-=single_copy;"
    "broadcast@shm[1-2]:2K-=single_copy;"
    "all_gather@shm[1-2]:4K-=single_copy;"
    "all_gather@shm[3-8]:48K-=single_copy;"
    "all_gather@shm[9-]:128K-=single_copy;"
    "reduce_scatter@shm[1-2]:8K-=single_copy;"
    "reduce_scatter@shm[3-]:128K-=single_copy;"
    "gather@shm[1-2]:4K-=single_copy;"
    "gather@shm[3-]:48K-=single_copy;"
    "scatter@shm[1-2]:4K-=single_copy;"
    "scatter@shm[3-4]:12K-=single_copy;"
    "scatter@shm[5-]:64K-=single_copy;"
    "all_to_all@shm[1-2]:8K-=single_copy;"
    "all_to_all@shm[3-8]:48K-=single_copy;"
    "all_to_all@shm[9-]:128K-=single_copy;"
    "barrier@shm:0-=staged;"
    "all_reduce@hosts:0-=hierarchical;"
    "all_reduce@hosts[3-4]:0-32K=binomial;"
    "reduce@hosts[3-16]:0-=binomial;"
    "broadcast@hosts:0-=hierarchical;"
    "all_gather@hosts:0-=hierarchical;"
    "reduce_scatter@hosts:0-=hierarchical;"
    "barrier@net:0-=dissemination;"
    "barrier@net[3-4]:0-=flat";

constexpr auto kNoEnd = std::numeric_limits<std::int64_t>::max();
constexpr auto kAnyRanks = std::numeric_limits<std::int32_t>::max();

bool matches(const Rule& rule, const Question& q) {
  const bool here =
      q.one_host ? rule.shm || (rule.nodes && q.several_nodes) : rule.net || (rule.hosts && q.several_hosts);
  return rule.collective == q.collective && here && q.ranks >= rule.min_ranks && q.ranks <= rule.max_ranks &&
         q.bytes >= rule.from && (q.bytes < rule.to || rule.to == kNoEnd);
}

std::string ranks_text(const Rule& rule) {
  if (rule.min_ranks == 1 && rule.max_ranks == kAnyRanks) return "";
  if (rule.max_ranks == kAnyRanks) return fmt::format("[{}-]", rule.min_ranks);
  if (rule.min_ranks == rule.max_ranks) return fmt::format("[{}]", rule.min_ranks);
  return fmt::format("[{}-{}]", rule.min_ranks, rule.max_ranks);
}

}  // namespace

std::string_view why_not(const Algorithm& algorithm, const Question& q) noexcept {
  if (needs_one_host(algorithm.place) && !q.one_host)
    return "it needs shared memory, and not all ranks are on one host";
  if (algorithm.place == Place::shared_buffers && !q.shared_buffers)
    return "it needs shared buffers (Group::allocate, registered, or large and used a few times)";
  if (algorithm.place == Place::shared_outputs && !(q.shared_buffers && q.shared_outputs))
    return "it needs the outputs of all ranks in shared buffers";
  if (algorithm.place == Place::peer_memory && !q.peer_memory)
    return q.contested ? "it competes with the others"
                       : "not all ranks may read each other's memory (process_vm_readv)";
  if (algorithm.place == Place::several_hosts && !q.several_hosts)
    return "it needs several hosts, and several ranks on some of them";
  if (algorithm.place == Place::several_nodes && !q.several_nodes)
    return "it needs several NUMA nodes, and several ranks on some of them";
  if (q.rounds && algorithm.has_partial_sums(q.ranks) && needs_one_host(algorithm.place))
    return "it would round partial sums to 16 bits";
  if (algorithm.even_only() && !q.even) return "it needs equal counts, and they differ";
  return {};
}

bool goes_inline(const Question& q, std::string_view overrides) noexcept {
  const Collective c = q.collective;
  const bool whole = c == Collective::all_reduce || c == Collective::reduce || c == Collective::broadcast;
  const std::int64_t block = whole ? q.bytes : divide_up(q.bytes, std::int64_t{q.ranks});
  return q.one_host && q.even && goes_inline(c, q.ranks, block) && overrides.find(name_of(c)) == std::string_view::npos;
}

std::string to_text(const Rule& rule) {
  const std::string_view place = rule.hosts             ? "@hosts"
                                 : rule.nodes           ? "@nodes"
                                 : rule.shm && rule.net ? ""
                                 : rule.shm             ? "@shm"
                                                        : "@net";
  return fmt::format("{}{}{}:{}-{}={}", name_of(rule.collective), place, ranks_text(rule), format_size(rule.from),
                     rule.to == kNoEnd ? "" : format_size(rule.to), rule.algorithm->name);
}

std::string_view name_of(Origin origin) noexcept {
  constexpr std::string_view names[] = {"built-in rule", "tuned rule", "override"};
  return names[static_cast<std::size_t>(origin)];
}

Result<Selector> Selector::parse(std::string_view overrides, std::string_view tuned) {
  if (overrides.starts_with(kBuiltIn)) overrides.remove_prefix(kBuiltIn.size());
  while (overrides.starts_with(';')) overrides.remove_prefix(1);
  Selector selector;
  const auto append = [&](std::string_view text, Origin origin) -> Status {
    auto rules = parse_rules(text, origin);
    if (!rules) return rules.status();
    if (rules->empty()) return {};
    selector.rules_.insert(selector.rules_.end(), rules->begin(), rules->end());
    if (!selector.text_.empty()) selector.text_ += ';';
    selector.text_ += text;
    return {};
  };
  if (Status s = append(kBuiltIn, Origin::built_in); !s.ok())
    return Status::internal("the built-in table: " + s.message());
  UNISONO_TRY(append(tuned, Origin::tuned));
  UNISONO_TRY(append(overrides, Origin::override));
  return selector;
}

namespace {
/// What runs instead of a partial-sum algorithm that no override names, or null. Its partial sums would travel as f32;
/// `direct` adds once and sends 16 bits only. It has more messages, and sends more between hosts of several ranks.
const Algorithm* adds_once_instead(const Rule& rule, const Question& q) noexcept {
  constexpr std::int64_t kLeast = 64 << 10;
  constexpr std::int32_t kMostRanks = 32;
  const bool partial = q.rounds && rule.algorithm->has_partial_sums(q.ranks);
  if (!partial || rule.origin == Origin::override || q.several_hosts) return nullptr;
  if (q.bytes < kLeast || q.ranks > kMostRanks) return nullptr;
  return find_algorithm(q.collective, "direct");
}
}  // namespace

const Algorithm* Selector::choose(const Question& question) const noexcept {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (!matches(*rule, question) || !why_not(*rule->algorithm, question).empty()) continue;
    const Algorithm* const instead = adds_once_instead(*rule, question);
    return instead != nullptr ? instead : rule->algorithm;
  }
  return nullptr;  // the built-in table has an answer to every question
}

Choice Selector::explain(const Question& question) const {
  std::string passed_over;
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    if (!matches(*rule, question)) continue;
    const std::string_view reason = why_not(*rule->algorithm, question);
    const std::string_view origin = name_of(rule->origin);
    if (const Algorithm* const instead = reason.empty() ? adds_once_instead(*rule, question) : nullptr)
      return {instead, fmt::format("sums of f16 and bf16 from 64K on are added in one step, instead of by {} {}{}",
                                   origin, to_text(*rule), passed_over)};
    if (reason.empty()) {
      return {rule->algorithm, fmt::format("{} {}{}", origin, to_text(*rule), passed_over)};
    }
    passed_over += fmt::format("; passed over {} {}: {}", origin, to_text(*rule), reason);
  }
  return {};
}

Result<std::int64_t> parse_size(std::string_view text) {
  const auto bad = [&](std::string_view why) {
    return Status::invalid(fmt::format("\"{}\" is not a size{}: write bytes as 4096, 64K, 1M or 2G", text, why));
  };
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed == std::errc::result_out_of_range) return bad(" (too large)");
  if (failed != std::errc{} || number < 0) return bad("");
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  std::int64_t factor = 1;
  if (!unit.empty() && unit != "B") {
    constexpr std::string_view kUnits = "KMG";
    const auto power = kUnits.find(static_cast<char>(unit.front() & ~0x20));  // capital or not
    if (power == std::string_view::npos) return bad("");
    factor = std::int64_t{1} << (10 * (power + 1));
    unit.remove_prefix(1);
    if (!unit.empty() && unit != "B" && unit != "iB") return bad("");
  }
  const auto bytes = checked_multiply(number, factor);
  if (!bytes) return bad(" (too large)");
  return *bytes;
}

std::string format_size(std::int64_t bytes) {
  constexpr std::string_view kUnits = "KMG";
  for (std::size_t power = kUnits.size(); power-- > 0;) {
    const std::int64_t unit = std::int64_t{1} << (10 * (power + 1));
    if (bytes != 0 && bytes % unit == 0) return fmt::format("{}{}", bytes / unit, kUnits[power]);
  }
  return fmt::format("{}", bytes);
}

}  // namespace unisono::plan
