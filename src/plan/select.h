#pragma once
/// Which algorithm runs: one readable range table per collective and place, as text.
///
///   all_reduce@shm:0-16K=staged_one_shot,16K-=staged_two_shot;all_reduce@net:0-64K=recursive_doubling,64K-=ring;broadcast:0-=binomial
///
/// A rule without @place is for both; @hosts is for groups on several hosts, some of them with several ranks, and @net for these and all others
/// that do not share memory; @nodes is for groups on several NUMA nodes of one host, some of them with several ranks, and @shm for these and
/// all others that do. all_reduce@shm[3-4]:... is for groups of 3 and 4 ranks only, [2] and [5-] likewise.
/// Ranges are [from, to) in bytes of the collective's size S (registry.h), with K, M, G as powers of 1024. Rules are separated
/// by ";", ranges by ",". A later rule or range wins over an earlier one, so an override is simply appended. Decided on one rank for the whole group: the group shares the text, so ranks never disagree.

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/registry.h"

namespace unisono::plan {

/// What is being asked for.
struct Question {
  Collective collective = Collective::all_reduce;
  bool one_host = true;  ///< all ranks share memory
  std::int32_t ranks = 1;
  std::int64_t bytes = 0;       ///< S
  bool even = true;             ///< all counts equal
  bool shared_buffers = false;  ///< what others touch of the callers' buffers lies in memory that unisono allocated
  bool shared_outputs = false;  ///< shared_buffers, and all outputs lie there, touched or not
  bool peer_memory = false;     ///< all ranks can read each other's memory
  bool contested = false;       ///< they can, and its algorithms compete with the others, call by call
  bool several_hosts = false;   ///< not one_host, but some ranks share memory
  bool rounds = false;          ///< what is added are f16 or bf16: partial sums would be rounded
  bool several_nodes = false;   ///< one_host, with several NUMA nodes, and some ranks share one
};

/// Why `algorithm` cannot run there, in words; empty when it can. Not about its collective.
std::string_view why_not(const Algorithm& algorithm, const Question& question) noexcept;

/// Whether so little travels with the announcement of the operation, and the table is not asked (inline.h). Not where the user's `overrides` (UNISONO_ALGORITHM) name the collective.
bool goes_inline(const Question& question, std::string_view overrides) noexcept;

/// The answer, with its reason in words.
struct Choice {
  const Algorithm* algorithm = nullptr;
  std::string reason;
};

/// Where a rule comes from; later ones win.
enum class Origin : std::uint8_t { built_in, tuned, override };

/// One range of one rule.
struct Rule {
  Collective collective = Collective::all_reduce;
  bool shm = true, net = true;  ///< the places it is for
  bool hosts = false;           ///< only for several hosts, some with several ranks; net is for these, too
  bool nodes = false;           ///< only for several NUMA nodes, some with several ranks; shm is for these, too
  std::int32_t min_ranks = 1, max_ranks = 1;  ///< inclusive
  std::int64_t from = 0, to = 0;              ///< bytes, [from, to)
  const Algorithm* algorithm = nullptr;
  Origin origin = Origin::built_in;
};
/// "built-in rule", "tuned rule", "override".
std::string_view name_of(Origin origin) noexcept;
/// In the syntax of Selector::parse.
std::string to_text(const Rule& rule);

/// An immutable table. Thread-safety: value.
class Selector {
 public:
  /// The built-in table with `tuned` (what was measured for this very layout) and `overrides` (what the user says) appended; unknown
  /// names and bad ranges are errors that show the place. `overrides` may also be the text() of another selector: then this one
  /// chooses as it does, and what was tuned there is an override here.
  static Result<Selector> parse(std::string_view overrides, std::string_view tuned = {});
  /// The algorithm for `question`; an algorithm that declines (even_only with uneven counts, shared memory without a
  /// common host) is passed over for the next best, never an error. Never nullptr.
  const Algorithm* choose(const Question& question) const noexcept;
  /// As choose, in words: which rule matched, what was passed over and why.
  Choice explain(const Question& question) const;
  /// The table in force, in the syntax of parse().
  const std::string& text() const noexcept { return text_; }
  /// The same as values, later ones win.
  const std::vector<Rule>& rules() const& noexcept { return rules_; }
  const std::vector<Rule>& rules() && = delete;  // would dangle

 private:
  std::vector<Rule> rules_;
  std::string text_;
};

/// "64K" -> 65536; also plain numbers and M, G. Used by every tool that takes sizes.
Result<std::int64_t> parse_size(std::string_view text);
/// 65536 -> "64K"; the inverse of parse_size, with a unit only where nothing is lost.
std::string format_size(std::int64_t bytes);

}  // namespace unisono::plan
