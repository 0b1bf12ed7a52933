#pragma once
/// All ranks of a group in one thread, in virtual time, over the in-process transport made faulty on purpose: every run is a
/// function of its seed.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "engine/domain.h"
#include "engine/messenger.h"
#include "engine/operation.h"
#include "transport/transports.h"

namespace unisono::engine::test {

struct Chaos {
  std::uint64_t seed = 1;
  bool partial = false;
  Duration max_delay{0};
  int streams = 1;  ///< between two ranks; with several, frames from 16 bytes on are cut
};

/// One rank.
struct SimulatedRank {
  PeerId id;
  std::unique_ptr<transport::Poller> poller;
  std::unique_ptr<Messenger> messenger;
  std::shared_ptr<transport::SharedSegment> segment;
  std::unique_ptr<StagePool> stages;
  std::unique_ptr<Domain> domain;
  std::shared_ptr<Failure> failure = std::make_shared<Failure>();
  std::vector<std::byte> scratch;
  std::uint64_t sequence = 0;
};

/// What all ranks call, and what each got.
struct Scenario {
  Collective collective = Collective::all_reduce;
  std::string algorithm;
  DType dtype = DType::i64;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  std::int64_t count = 0;
  std::vector<std::int64_t> counts{};
  bool in_place = false;
  bool leaves = false;  ///< each rank destroys the group as soon as it is through: nothing else can run after that
};

class SimulatedWorld {
 public:
  SimulatedWorld(int size, const Chaos& chaos, std::int64_t slice_bytes);
  int size() const { return static_cast<int>(ranks_.size()); }

  /// Runs the scenario on all ranks with a schedule drawn from the seed; "" when every rank ended with the right result,
  /// else what went wrong. `kill_after` >= 0: rank `victim` dies after so many turns; then the others must either have
  /// the right result or fail with a RankFailure that names it.
  std::string run(const Scenario& scenario, int victim = -1, int kill_after = -1);
  /// Turns taken so far, and a hash over which rank took each and whether it moved: equal for equal seeds.
  std::uint64_t trace() const { return trace_; }
  SimulatedRank& rank(int r) { return *ranks_[static_cast<std::size_t>(r)]; }
  ManualClock& clock() noexcept { return clock_; }
  /// What an Operation of rank r stands on.
  Ground ground(int r);
  /// The plan of the scenario's algorithm for rank r.
  Bound bound_plan(const Scenario& scenario, int r) const;

 private:
  void connect(int streams);
  void run_until(const std::function<bool()>& done, const char* what);
  bool for_all_pairs(const std::vector<std::vector<int>>& peers,
                     const std::function<bool(SimulatedRank& me, int peer)>& holds);
  /// Anybody's messages move.
  class Others final : public Turns {
   public:
    explicit Others(SimulatedWorld& world) : world_(world) {}
    bool give_way() noexcept override;

   private:
    SimulatedWorld& world_;
  };
  using Numbers = std::pmr::vector<std::int64_t>;  ///< in the rank's segment
  std::unique_ptr<Operation> make(const Scenario& scenario, int r, Numbers& in, Numbers& out);
  std::string check(const Scenario& scenario, int r, const Numbers& in, const Numbers& out) const;

  ManualClock clock_;
  std::mt19937_64 random_;
  std::int64_t slice_bytes_;
  std::shared_ptr<transport::InprocHub> hub_;
  std::vector<std::unique_ptr<SimulatedRank>> ranks_;
  std::uint64_t trace_ = 0;
  Others others_{*this};
  int dead_ = -1;  ///< the rank that was killed
};

/// Lets each rank go from call to call as soon as it can, some more often than others, so that anybody may be ahead: `start(r, number)` begins a call on rank r, `ended(r, number)`
/// looks at what became of it. False when not all ranks have ended all of `calls` after very many turns: it hangs.
template <class Start, class Ended>
bool play_calls(std::span<const std::unique_ptr<Operation>> ranks, std::uint64_t calls, std::mt19937& random,
                const Start& start, const Ended& ended) {
  std::vector<std::uint64_t> at(ranks.size());
  std::size_t through = 0;
  for (std::size_t r = 0; r < ranks.size(); r++) start(static_cast<int>(r), 0);
  for (int turn = 0; turn < 1'000'000 && through < ranks.size(); turn++) {
    const std::size_t r = random() % 7 % ranks.size();
    if (at[r] == calls) continue;
    ranks[r]->advance();
    if (!ranks[r]->done()) continue;
    ended(static_cast<int>(r), at[r]);
    if (::testing::Test::HasFatalFailure()) return true;  // it has been said
    if (++at[r] < calls)
      start(static_cast<int>(r), at[r]);
    else
      through++;
  }
  return through == ranks.size();
}

}  // namespace unisono::engine::test
