/// all_to_all in which pairs read for each other: who may begin before others have come, and leave before they have gone. Ranks in one thread, that go on in any
/// order.

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/simulated_world.h"

namespace unisono::engine::test {
namespace {

constexpr std::int64_t kBlock = 3000;  // bytes

/// Calls of an all_to_all by `ranks`, each run by one Operation a rank. `contest`: staged, or by pairs if rank 0 has said so one call ahead; else by pairs.
class Exchanges {
 public:
  Exchanges(int ranks, bool contest) : world_(ranks, {}, 0), in_(room(ranks)), out_(room(ranks)) {
    for (int r = 0; r < ranks; r++) {
      operations_.push_back(std::make_unique<Operation>(world_.ground(r)));
      const auto plan = [&](const char* name) {
        return world_.bound_plan(
            {.collective = Collective::all_to_all, .algorithm = name, .dtype = DType::u8, .count = kBlock}, r);
      };
      auto prepared = std::make_shared<Prepared>();
      prepared->usual = plan(contest ? "staged" : "single_copy_pairs");
      prepared->reads_peers = !contest;
      if (contest) prepared->rival = plan("single_copy_pairs");
      prepared->dtype = DType::u8;
      prepared->signature = Signature::make({Collective::all_to_all, DType::u8, ReduceOp::sum, 0, false, 0}, kBlock);
      prepared_.push_back(std::move(prepared));
    }
  }

  void start(int r, std::uint64_t number, bool now = true, bool next = true) {
    for (std::size_t i = 0; i < in(r).size(); i++) in(r)[i] = value(r, i, number);
    out(r).assign(out(r).size(), std::byte{0xee});
    Request request;
    request.prepared = prepared_[static_cast<std::size_t>(r)];
    request.in = in(r).data();
    request.out = out(r).data();
    request.judged = {Collective::all_to_all, 14, number};
    if (r == 0) request.rival_runs = now, request.rival_runs_next = next;
    operation(r).start(std::move(request), number + 1);
  }
  /// So often as to get as far as it can without the others.
  void advance(int r) {
    for (int turn = 0; turn < 100; turn++) operation(r).advance();
  }
  Operation& operation(int r) { return *operations_[static_cast<std::size_t>(r)]; }
  std::span<const std::unique_ptr<Operation>> operations() const { return operations_; }
  /// Whether rank r has what rank q had for it.
  bool has(int r, int q, std::uint64_t number) {
    for (std::size_t i = 0; i < kBlock; i++)
      if (out(r)[static_cast<std::size_t>(q) * kBlock + i] !=
          value(q, static_cast<std::size_t>(r) * kBlock + i, number))
        return false;
    return true;
  }
  bool is_right(int r, std::uint64_t number) {
    bool all = true;
    for (int q = 0; q < world_.size(); q++) all &= has(r, q, number);
    return all;
  }

 private:
  using Buffers = std::vector<std::vector<std::byte>>;
  static Buffers room(int ranks) {
    const auto n = static_cast<std::size_t>(ranks);
    return Buffers(n, std::vector<std::byte>(n * kBlock));
  }
  static std::byte value(int rank, std::size_t i, std::uint64_t number) {
    return static_cast<std::byte>((i * 7 >> 3) ^ i ^ (static_cast<std::size_t>(rank) * 31 + number * 5));
  }
  std::vector<std::byte>& in(int r) { return in_[static_cast<std::size_t>(r)]; }
  std::vector<std::byte>& out(int r) { return out_[static_cast<std::size_t>(r)]; }

  SimulatedWorld world_;
  std::vector<std::shared_ptr<const Prepared>> prepared_;
  std::vector<std::unique_ptr<Operation>> operations_;
  Buffers in_, out_;
};

TEST(Pairs, NobodyWaitsForMoreThanItsPartnerAndThoseItReadsFrom) {
  Exchanges calls(4, false);
  calls.start(0, 0);
  calls.advance(0);
  EXPECT_FALSE(calls.has(0, 2, 0)) << "rank 2 has not begun";
  calls.start(2, 0);
  calls.advance(2);
  calls.advance(0);
  EXPECT_TRUE(calls.has(0, 2, 0)) << "whether ranks 1 and 3 have come or not";
  EXPECT_TRUE(calls.has(2, 0, 0));
  calls.start(1, 0);
  calls.start(3, 0);
  for (const int r : {3, 1, 3, 1}) calls.advance(r);
  EXPECT_TRUE(calls.operation(1).done() && calls.is_right(1, 0)) << "its partner has not fetched a thing yet";
  EXPECT_FALSE(calls.operation(0).done());
  for (const int r : {0, 2, 3}) {
    calls.advance(r);
    EXPECT_TRUE(calls.operation(r).done() && calls.operation(r).status().ok() && calls.is_right(r, 0)) << r;
  }
}

TEST(Pairs, WhoIsReadFromStays) {
  Exchanges calls(4, false);
  for (const int r : {0, 1, 3}) calls.start(r, 0);
  for (int turn = 0; turn < 3; turn++)
    for (const int r : {0, 1, 3}) calls.advance(r);
  EXPECT_FALSE(calls.operation(1).done()) << "rank 0 has nothing of rank 2 for it";
  EXPECT_EQ(calls.operation(1).waiting_for(), std::vector{2});
  EXPECT_EQ(calls.operation(0).waiting_for(), std::vector{2});
}

/// Each rank goes from call to call as soon as it can.
TEST(Pairs, AllRanksRunWhatTheJudgeHasSaidOneCallAhead) {
  constexpr std::uint64_t kCalls = 200;
  for (const int ranks : {2, 3, 4, 5})
    for (const unsigned seed : {1u, 2u, 3u}) {
      std::mt19937 random(seed);
      std::vector<bool> rival(kCalls + 1);
      for (std::size_t i = 0; i < rival.size(); i++) rival[i] = random() % 2 != 0;
      Exchanges calls(ranks, true);
      const auto start = [&](int r, std::uint64_t call) { calls.start(r, call, rival[call], rival[call + 1]); };
      const auto ended = [&](int r, std::uint64_t call) {
        const Operation& operation = calls.operation(r);
        ASSERT_TRUE(operation.status().ok()) << operation.status().message();
        ASSERT_EQ(operation.algorithm(), rival[call] ? "single_copy_pairs" : "staged") << "rank " << r << ", " << call;
        ASSERT_TRUE(calls.is_right(r, call)) << "rank " << r << ", call " << call;
      };
      ASSERT_TRUE(play_calls(calls.operations(), kCalls, random, start, ended)) << "it hangs";
      if (HasFatalFailure()) return;
    }
}

}  // namespace
}  // namespace unisono::engine::test
