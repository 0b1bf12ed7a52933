#pragma once
/// From times to rules: which algorithm `unisono bench --tune` chooses at each size, and the text
/// that says so. Pure.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/registry.h"

namespace unisono::cli {

/// One algorithm at one size.
struct Candidate {
  const plan::Algorithm* algorithm = nullptr;
  /// Seconds in each round, of all candidates in turn: rounds of the same number were measured next
  /// to each other. One that was hopeless has fewer of them.
  std::vector<double> rounds;
  double seconds() const;  ///< the median
};

/// All that was measured at one size. Indices are into `candidates`.
struct TunePoint {
  Collective collective = Collective::all_reduce;
  std::int64_t bytes = 0;       ///< S
  bool shared_buffers = false;  ///< the buffers came from Group::allocate
  std::vector<Candidate> candidates;
  std::size_t in_force = 0;  ///< what the group's table chose before
  std::size_t best = 0;      ///< the least median of those that were not dropped
  std::size_t chosen = 0;
  /// What competes with that as programs run, and is used while it is faster (group::Contest).
  std::optional<std::size_t> rival = std::nullopt;

  double ratio(std::size_t candidate) const;                               ///< its time over the best's
  std::size_t runs(std::size_t choice) const;                              ///< that, or its rival where it is faster
  double behind(std::size_t choice) const { return ratio(runs(choice)); }  ///< what runs then, over the best's
  /// After a few rounds it was so far behind that it was not measured any more. Those rounds may
  /// all be of a time when the machine was quick, or slow.
  bool dropped(std::size_t candidate) const;
  /// One that was dropped looks faster than what would be chosen, by what that has taken since.
  bool unsettled() const;
};

/// How much faster another algorithm must be than the one in force, and in which share of the
/// rounds, to take its place: a table that changes with the noise would be worse than one that is a
/// little slow.
inline constexpr double kClearly = 1.07, kMostRounds = 0.75;

/// A choice may be so many times as slow as the best algorithm and no more, by the medians of all
/// rounds.
inline constexpr double kMostBehind = 1.15;

/// Sets best and chosen.
void choose(TunePoint& point);
/// When nothing more will be measured: what is beyond kMostBehind all the same gives way to the
/// best, though the rounds disagree.
void settle(TunePoint& point);

/// The place of a rule's head: "shm", "hosts" or "net". Rules for groups of `ranks`, one collective
/// after the other. Between two sizes that were measured the limit is their geometric mean; below
/// the smallest and above the largest a rule reaches half as far, and leaves the rest to the
/// built-in table.
std::string rules_of(std::span<const TunePoint> points, std::string_view place, int ranks);

/// `earlier` without its rules for the collectives of `points`, followed by `rules`.
std::string merge_rules(std::string_view earlier, std::span<const TunePoint> points, std::string_view rules);

}  // namespace unisono::cli
