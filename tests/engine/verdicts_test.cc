/// Contests of two plans, whose judge says one call ahead which of them runs: three ranks in one thread, that go on in any order.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/simulated_world.h"

namespace unisono::engine::test {
namespace {

TEST(Verdicts, WhatIsSaidOfOneCallChangesNoOther) {
  constexpr Verdict kNothing, kRival{.rival = true}, kClosed{.closed = true};
  Verdicts verdicts;
  const Judged gather{Collective::gather, 20, 7};
  verdicts.give(gather, {.rival = true, .closed = true});
  EXPECT_EQ(verdicts.of(gather), (Verdict{.rival = true, .closed = true}));
  for (const Judged& other : {Judged{Collective::gather, 20, 8}, Judged{Collective::gather, 21, 7},
                              Judged{Collective::gather, 63, 7}, Judged{Collective::scatter, 20, 7}})
    EXPECT_EQ(verdicts.of(other), kNothing);
  verdicts.give({Collective::gather, 20, 8}, kRival);
  verdicts.give({Collective::gather, 20, 9}, kClosed);  // of call 7 nobody asks any more
  EXPECT_EQ(verdicts.of({Collective::gather, 20, 9}), kClosed);
  EXPECT_EQ(verdicts.of({Collective::gather, 20, 8}), kRival);
}

constexpr int kScattered = 3, kJudge = 1;
constexpr std::size_t kScatteredBytes = 3000;

/// Scatters of rank 0, staged or read by the rival as rank 1 says, each run by one Operation a rank.
class Scatters {
 public:
  Scatters() {
    for (int r = 0; r < kScattered; r++) {
      operation_[r] = std::make_unique<Operation>(world_.ground(r));
      const auto plan = [&](const char* name) {
        return world_.bound_plan(
            {.collective = Collective::scatter, .algorithm = name, .dtype = DType::u8, .count = kScatteredBytes}, r);
      };
      auto prepared = std::make_shared<Prepared>();
      prepared->usual = plan("staged");
      prepared->rival = plan("single_copy");
      prepared->judge = kJudge;
      prepared->dtype = DType::u8;
      prepared->signature =
          Signature::make({Collective::scatter, DType::u8, ReduceOp::sum, 0, false, 0}, kScatteredBytes);
      prepared_[r] = std::move(prepared);
    }
    for (std::size_t i = 0; i < in_.size(); i++) in_[i] = static_cast<std::byte>(i * 7 >> 3 ^ i);
  }

  /// Rank r begins its call `number`. `now` and `next` are the judge's.
  void start(int r, std::uint64_t number, bool now, bool next) {
    out_[r].assign(kScatteredBytes, std::byte{0});
    Request request;
    request.prepared = prepared_[r];
    request.in = r == 0 ? in_.data() : nullptr;
    request.out = out_[r].data();
    request.judged = {Collective::scatter, 14, number};
    if (r == kJudge) request.rival_runs = now, request.rival_runs_next = next;
    operation_[r]->start(std::move(request), number + 1);
  }
  Operation& operation(int r) { return *operation_[r]; }
  std::span<const std::unique_ptr<Operation>> operations() const { return operation_; }
  bool is_right(int r) const {
    return std::memcmp(out_[r].data(), in_.data() + r * kScatteredBytes, kScatteredBytes) == 0;
  }

 private:
  SimulatedWorld world_{kScattered, {}, 0};
  std::shared_ptr<const Prepared> prepared_[kScattered];
  std::unique_ptr<Operation> operation_[kScattered];
  std::vector<std::byte> in_ = std::vector<std::byte>(kScattered * kScatteredBytes), out_[kScattered];
};

/// Each rank goes from call to call as soon as it can, so that the judge is ahead of the others or behind them.
TEST(Verdicts, AllRanksRunWhatTheJudgeHasSaidOneCallAhead) {
  constexpr std::uint64_t kCalls = 300;
  for (const unsigned seed : {1u, 2u, 3u, 4u, 5u}) {
    std::mt19937 random(seed);
    std::vector<bool> rival(kCalls + 1);
    for (std::size_t i = 0; i < rival.size(); i++) rival[i] = random() % 2 != 0;
    Scatters scatters;
    const auto start = [&](int r, std::uint64_t call) { scatters.start(r, call, rival[call], rival[call + 1]); };
    const auto ended = [&](int r, std::uint64_t call) {
      const Operation& operation = scatters.operation(r);
      ASSERT_TRUE(operation.status().ok()) << operation.status().message();
      ASSERT_EQ(operation.algorithm(), rival[call] ? "single_copy" : "staged") << "rank " << r << ", call " << call;
      ASSERT_TRUE(scatters.is_right(r)) << "rank " << r << ", call " << call;
    };
    ASSERT_TRUE(play_calls(scatters.operations(), kCalls, random, start, ended)) << "it hangs";
    if (HasFatalFailure()) return;
  }
}

/// The root and a third rank need nothing of the judge but its word.
TEST(Verdicts, NobodyWaitsForTheJudgeAfterTheFirstCall) {
  for (const bool rival : {false, true}) {
    Scatters scatters;
    for (std::uint64_t call = 0; call < 3; call++) {
      const bool early = call > 0;
      for (const int r : {0, 2}) scatters.start(r, call, rival, rival);
      for (int turn = 0; turn < 100; turn++)
        for (const int r : {0, 2}) scatters.operation(r).advance();
      EXPECT_EQ(scatters.operation(2).done(), early) << call;
      scatters.start(kJudge, call, rival, rival);
      for (int turn = 0; turn < 100; turn++)
        for (int r = 0; r < kScattered; r++) scatters.operation(r).advance();
      for (int r = 0; r < kScattered; r++) {
        ASSERT_TRUE(scatters.operation(r).done() && scatters.operation(r).status().ok()) << call;
        EXPECT_EQ(scatters.operation(r).algorithm(), rival ? "single_copy" : "staged");
        EXPECT_TRUE(scatters.is_right(r));
      }
    }
  }
}

}  // namespace
}  // namespace unisono::engine::test
