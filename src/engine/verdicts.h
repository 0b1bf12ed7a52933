#pragma once
/// Which plan runs, said one call ahead, so that nobody waits for whoever says it.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "unisono/types.hpp"

namespace unisono::engine {

/// A call in which one rank, the judge, says which plan runs: the how-many-th, from 0, of those of its collective and judge with
/// sizes of so many binary digits. All ranks count alike, as all make the same calls.
struct Judged {
  Collective collective = Collective::all_reduce;
  int digits = 0;  ///< at most 63
  std::uint64_t number = 0;
  friend bool operator==(const Judged&, const Judged&) = default;
};

/// What a judge says of a call.
struct Verdict {
  bool rival = false;   ///< the rival runs instead of the usual plan
  bool closed = false;  ///< no shared plan runs, whatever the judge opens
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

/// A judge's word on the next call of each kind. It lies in the judge's segment; others read it. There are two places for it, one for calls with even numbers: what was
/// said of call k is there from the announcement of call k - 1, which a rank that may announce call k has seen, to that of call k + 1, before which all have
/// announced call k (Domain::may_announce). So whoever asks before it announces its call hears what all hear.
class Verdicts {
 public:
  /// The judge, before it announces call `number` - 1.
  void give(const Judged& call, Verdict says) noexcept {
    put(rival_[call.number % 2], call, says.rival);
    put(closed_[call.number % 2], call, says.closed);
  }
  /// What was said of a call that is not the first.
  Verdict of(const Judged& call) const noexcept {
    return {bit(rival_[call.number % 2], call), bit(closed_[call.number % 2], call)};
  }

 private:
  using Words = std::array<std::atomic<std::uint64_t>, kCollectives>;
  static void put(Words& words, const Judged& call, bool says) noexcept {
    std::atomic<std::uint64_t>& word = words[static_cast<std::size_t>(call.collective)];
    const std::uint64_t said = word.load(std::memory_order_relaxed);  // nobody else writes here
    const std::uint64_t bit = std::uint64_t{1} << call.digits, next = says ? said | bit : said & ~bit;
    if (next != said)
      word.store(next, std::memory_order_release);  // as a rule it is said again, and lines stay where they are read
  }
  static bool bit(const Words& words, const Judged& call) noexcept {
    return (words[static_cast<std::size_t>(call.collective)].load(std::memory_order_acquire) >> call.digits & 1) != 0;
  }
  std::array<Words, 2> rival_{}, closed_{};
};

}  // namespace unisono::engine
