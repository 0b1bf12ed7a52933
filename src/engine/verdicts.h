#pragma once
/// Which of two plans runs, said one call ahead, so that nobody waits for whoever says it.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "unisono/types.hpp"

namespace unisono::engine {

/// A call in which one rank, the judge, has two plans compete: the how-many-th, from 0, of those of its collective and judge with
/// sizes of so many binary digits. All ranks count alike, as all make the same calls. Where nothing is said ahead each call is the first.
struct Judged {
  Collective collective = Collective::all_reduce;
  int digits = 0;  ///< at most 63
  std::uint64_t number = 0;
  friend bool operator==(const Judged&, const Judged&) = default;
};

/// A judge's word on the next call of each kind. It lies in the judge's segment; others read it. There are two places for it, one for calls with even numbers: what was
/// said of call k is there from the announcement of call k - 1, which a rank that may announce call k has seen, to that of call k + 1, before which all have
/// announced call k (Domain::may_announce). So whoever asks before it announces its call hears what all hear.
class Verdicts {
 public:
  /// The judge, before it announces call `number` - 1.
  void give(const Judged& call, bool rival) noexcept {
    std::atomic<std::uint64_t>& word = place(call);
    const std::uint64_t said = word.load(std::memory_order_relaxed);  // nobody else writes here
    const std::uint64_t bit = std::uint64_t{1} << call.digits, says = rival ? said | bit : said & ~bit;
    if (says != said)
      word.store(says, std::memory_order_release);  // as a rule it is said again, and lines stay where they are read
  }
  /// What was said of a call that is not the first.
  bool rival(const Judged& call) const noexcept {
    return (place(call).load(std::memory_order_acquire) >> call.digits & 1) != 0;
  }

 private:
  using Words = std::array<std::atomic<std::uint64_t>, kCollectives>;
  std::atomic<std::uint64_t>& place(const Judged& call) noexcept {
    return words_[call.number % 2][static_cast<std::size_t>(call.collective)];
  }
  const std::atomic<std::uint64_t>& place(const Judged& call) const noexcept {
    return words_[call.number % 2][static_cast<std::size_t>(call.collective)];
  }
  std::array<Words, 2> words_{};
};

}  // namespace unisono::engine
