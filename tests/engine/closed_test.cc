/// Gathers whose root says one call ahead that its output is private, so that nobody waits to hear it: three ranks in one thread.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/simulated_world.h"

namespace unisono::engine::test {
namespace {

constexpr int kGathering = 3, kGatherer = 1;
constexpr std::size_t kClosedGather = 2000;  ///< bytes of a rank

/// Gathers to rank 1, whose output lies in its segment or does not, each run by one Operation a rank.
class Gathers {
 public:
  explicit Gathers(bool rival) {
    SimulatedRank& root = world_.rank(kGatherer);
    open_ = root.segment->base() + root.segment->allocate_buffer(kGathering * kClosedGather).value();
    for (int r = 0; r < kGathering; r++) {
      operation_[r] = std::make_unique<Operation>(world_.ground(r));
      const auto plan = [&](const char* name) {
        return world_.bound_plan({.collective = Collective::gather,
                                  .algorithm = name,
                                  .dtype = DType::u8,
                                  .root = kGatherer,
                                  .count = kClosedGather},
                                 r);
      };
      auto prepared = std::make_shared<Prepared>();
      prepared->usual = plan("staged");
      prepared->shared = plan("shared");
      if (rival) prepared->rival = plan("single_copy");
      prepared->judge = kGatherer;
      prepared->judge_opens = true;
      prepared->dtype = DType::u8;
      prepared->signature =
          Signature::make({Collective::gather, DType::u8, ReduceOp::sum, kGatherer, false, 0}, kClosedGather);
      prepared_[r] = std::move(prepared);
      in_[r].resize(kClosedGather);
    }
  }

  /// Rank r begins its call `number`; `open` is the root's.
  void start(int r, std::uint64_t number, bool open, bool rival = false) {
    for (std::size_t i = 0; i < kClosedGather; i++) in_[r][i] = value(r, number, i);
    Request request;
    request.prepared = prepared_[r];
    request.in = in_[r].data();
    if (r == kGatherer) {
      out_ = open ? open_ : private_.data();
      std::memset(out_, 0, private_.size());
      request.out = out_;
      request.rival_runs = request.rival_runs_next = rival;
    }
    request.judged = {Collective::gather, 13, number};
    operation_[r]->start(std::move(request), number + 1);
  }
  Operation& operation(int r) { return *operation_[r]; }
  std::span<const std::unique_ptr<Operation>> operations() const { return operation_; }
  bool is_right(std::uint64_t number) const {
    for (std::size_t i = 0; i < private_.size(); i++)
      if (out_[i] != value(static_cast<int>(i / kClosedGather), number, i % kClosedGather)) return false;
    return true;
  }
  /// All ranks begin and end it; what ran, if all agree and the result is right.
  std::string call(std::uint64_t number, bool open, bool rival = false) {
    for (int r = 0; r < kGathering; r++) start(r, number, open, rival);
    for (int turn = 0; turn < 1000; turn++)
      for (auto& operation : operation_) operation->advance();
    for (const auto& operation : operation_) {
      if (!operation->done()) return "it hangs";
      if (!operation->status().ok()) return operation->status().message();
      if (operation->algorithm() != operation_[0]->algorithm()) return "the ranks do not agree";
    }
    return is_right(number) ? std::string(operation_[0]->algorithm()) : "wrong";
  }

 private:
  static std::byte value(int r, std::uint64_t number, std::size_t i) {
    return static_cast<std::byte>((i * 7 >> 3 ^ i) + 31u * static_cast<unsigned>(r) + number + 1);
  }
  SimulatedWorld world_{kGathering, {}, 0};
  std::shared_ptr<const Prepared> prepared_[kGathering];
  std::unique_ptr<Operation> operation_[kGathering];
  std::vector<std::byte> in_[kGathering];
  std::vector<std::byte> private_ = std::vector<std::byte>(kGathering * kClosedGather);
  std::byte *open_ = nullptr, *out_ = nullptr;
};

TEST(Closed, NobodyWaitsForARootWhoseOutputWasPrivateForSomeCalls) {
  Gathers gathers(false);
  constexpr std::uint64_t kCalls = 12;
  for (std::uint64_t number = 0; number < kCalls; number++) {
    gathers.start(0, number, false);
    for (int turn = 0; turn < 100; turn++) gathers.operation(0).advance();
    const bool early = gathers.operation(0).done();  // the root has not begun
    if (number == 0 || number == kCalls - 1) {
      EXPECT_EQ(early, number > 0);
    }
    for (const int r : {kGatherer, 2}) gathers.start(r, number, false);
    for (int turn = 0; turn < 100; turn++)
      for (int r = 0; r < kGathering; r++) gathers.operation(r).advance();
    for (int r = 0; r < kGathering; r++)
      ASSERT_TRUE(gathers.operation(r).done() && gathers.operation(r).status().ok()) << number;
    EXPECT_TRUE(gathers.is_right(number));
    EXPECT_EQ(gathers.operation(2).algorithm(), "staged");
  }
}

/// The first such call is by stages still, as it was said; all behind it are not.
TEST(Closed, AnOutputThatIsOpenAgainIsUsedFromTheNextCallOn) {
  for (const bool rival : {false, true}) {
    Gathers gathers(rival);
    const std::string usual = rival ? "single_copy" : "staged";
    std::uint64_t number = 0;
    for (int i = 0; i < 20; i++) ASSERT_EQ(gathers.call(number++, false, rival), usual) << i;
    EXPECT_EQ(gathers.call(number++, true, rival), usual);
    for (int i = 0; i < 20; i++) ASSERT_EQ(gathers.call(number++, true, rival), "shared") << i;
    for (int i = 0; i < 20; i++) ASSERT_EQ(gathers.call(number++, false, rival), usual) << i;
  }
}

TEST(Closed, WhoAlternatesKeepsWhatSharedMemoryGives) {
  Gathers gathers(true);
  for (std::uint64_t number = 0; number < 60; number++)
    ASSERT_EQ(gathers.call(number, number % 2 == 0), number % 2 == 0 ? "shared" : "staged") << number;
}

/// Each rank goes from call to call as soon as it can; the output is open for a random number of calls, and private for as many.
TEST(Closed, AllRanksRunTheSame) {
  constexpr std::uint64_t kCalls = 400;
  for (const unsigned seed : {1u, 2u, 3u, 4u, 5u}) {
    std::mt19937 random(seed);
    std::vector<bool> open;
    while (open.size() <= kCalls) open.insert(open.end(), 1 + random() % 20, random() % 2 == 0);
    Gathers gathers(seed % 2 == 0);
    std::vector<std::string> ran(kCalls);
    const auto start = [&](int r, std::uint64_t call) { gathers.start(r, call, open[call]); };
    const auto ended = [&](int r, std::uint64_t call) {
      const Operation& operation = gathers.operation(r);
      ASSERT_TRUE(operation.status().ok()) << operation.status().message();
      if (ran[call].empty()) ran[call] = operation.algorithm();
      ASSERT_EQ(operation.algorithm(), ran[call]) << "rank " << r << ", call " << call;
      ASSERT_TRUE(r != kGatherer || gathers.is_right(call)) << "call " << call;
    };
    ASSERT_TRUE(play_calls(gathers.operations(), kCalls, random, start, ended)) << "it hangs";
    if (HasFatalFailure()) return;
    EXPECT_GT(std::count(ran.begin(), ran.end(), "shared"), 20);
  }
}

}  // namespace
}  // namespace unisono::engine::test
