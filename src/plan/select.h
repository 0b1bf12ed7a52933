#pragma once
/// Which algorithm runs: one readable range table per collective and place, as text.
///
///   all_reduce@shm:0-16K=staged_one_shot,16K-=staged_two_shot;all_reduce@net:0-64K=recursive_doubling,64K-=ring;broadcast:0-=binomial
///
/// A rule without @place is for both. Ranges are [from, to) in bytes of the collective's size S (registry.h), with K, M,
/// G as powers of 1024. Rules are separated by ";", ranges by ",". A later rule or range wins over an earlier one, so an override
/// is simply appended. Decided on one rank for the whole group: the group shares the text, so ranks never disagree.

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/registry.h"

namespace unisono::plan {

/// What is being asked for.
struct Question {
  Collective collective = Collective::all_reduce;
  bool one_host = true;       ///< all ranks share memory
  std::int32_t ranks = 1;
  std::int64_t bytes = 0;     ///< S
  bool even = true;           ///< all counts equal
};

/// The answer, with its reason in words.
struct Choice {
  const Algorithm* algorithm = nullptr;
  std::string reason;
};

/// An immutable table. Thread-safety: value.
class Selector {
 public:
  /// The built-in table with `overrides` appended; unknown names and bad ranges are errors that show the place.
  static Result<Selector> parse(std::string_view overrides);
  /// The algorithm for `question`; an algorithm that declines (even_only with uneven counts, shared memory without a
  /// common host) is passed over for the next best, never an error.
  const Algorithm* choose(const Question& question) const noexcept;
  /// As choose, in words: which rule matched, what was passed over and why.
  Choice explain(const Question& question) const;
  /// The table in force, in the syntax of parse().
  const std::string& text() const noexcept { return text_; }

 private:
  struct Rule {
    Collective collective;
    Place place;
    std::int64_t from, to;
    const Algorithm* algorithm;
    bool override_;
  };
  std::vector<Rule> rules_;
  std::string text_;
};

/// "64K" -> 65536; also plain numbers and M, G. Used by every tool that takes sizes.
Result<std::int64_t> parse_size(std::string_view text);

}  // namespace unisono::plan
