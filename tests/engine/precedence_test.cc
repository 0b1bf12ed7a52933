/// Ranks on one processor go one after another, and in the next call the other way round: four ranks in one thread, two of them on each of two processors.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "engine/simulated_world.h"

namespace unisono::engine::test {
namespace {

constexpr int kPlaced = 4;
constexpr std::size_t kGathered = 300 << 10;  ///< bytes of a block, several stretches

/// One all_gather of shared buffers after another.
class GatheringOnTwoProcessors {
 public:
  explicit GatheringOnTwoProcessors(std::int64_t second_cache) : second_cache_(second_cache) {
    for (int r = 0; r < kPlaced; r++) {
      in_[r] = memory(r, kGathered);
      out_[r] = memory(r, kPlaced * kGathered);
    }
  }

  /// All have announced the next call.
  void begin() {
    sequence_++;
    for (int r = 0; r < kPlaced; r++) {
      for (std::size_t i = 0; i < kGathered; i++) in_[r][i] = value(r, i);
      std::memset(out_[r], 0, kPlaced * kGathered);
      const auto prepared = std::make_shared<Prepared>();
      prepared->usual = plan("staged", r);
      prepared->shared = plan("shared", r);
      prepared->dtype = DType::u8;
      prepared->signature = Signature::make({Collective::all_gather, DType::u8, ReduceOp::sum, 0, false, 0}, kGathered);
      Ground ground = world_.ground(r);
      const bool first = r % 2 == 0;
      ground.mates = {first ? -1 : r - 1, first ? r + 1 : -1, 2, second_cache_};
      operation_[r] =
          std::make_unique<Operation>(Request{.prepared = prepared, .in = in_[r], .out = out_[r]}, ground, sequence_);
    }
    for (const auto& operation : operation_) operation->advance();
  }

  /// Rank r looks so many times; whether it has written anything by then.
  bool works(int r, int looks) {
    for (int look = 0; look < looks; look++) operation_[r]->advance();
    return std::any_of(out_[r], out_[r] + kPlaced * kGathered, [](std::byte b) { return b != std::byte{0}; });
  }
  /// It does its part of the call.
  void do_part(int r) { EXPECT_TRUE(works(r, 100)); }

  /// What went wrong; all ranks in turn.
  std::string finish() {
    const auto done = [&] { return std::ranges::all_of(operation_, [](const auto& o) { return o->done(); }); };
    for (int turn = 0; turn < 1000 && !done(); turn++)
      for (auto& operation : operation_) operation->advance();
    if (!done()) return "it hangs";
    for (int r = 0; r < kPlaced; r++) {
      if (!operation_[r]->status().ok()) return operation_[r]->status().message();
      if (operation_[r]->algorithm() != "shared") return "it ran " + std::string(operation_[r]->algorithm());
      for (std::size_t i = 0; i < kPlaced * kGathered; i++)
        if (out_[r][i] != value(static_cast<int>(i / kGathered), i % kGathered))
          return "wrong on rank " + std::to_string(r);
    }
    return {};
  }

 private:
  std::byte value(int r, std::size_t i) const {
    return static_cast<std::byte>(((i * 7 >> 3 ^ i) + 31u * r + sequence_) | 1);
  }
  std::byte* memory(int r, std::size_t bytes) {
    SimulatedRank& rank = world_.rank(r);
    return rank.segment->base() + rank.segment->allocate_buffer(bytes).value();
  }
  Bound plan(const char* algorithm, int r) const {
    return world_.bound_plan(
        {.collective = Collective::all_gather, .algorithm = algorithm, .dtype = DType::u8, .count = kGathered}, r);
  }

  std::int64_t second_cache_;
  std::uint64_t sequence_ = 0;
  SimulatedWorld world_{kPlaced, {}, 0};
  std::byte *in_[kPlaced] = {}, *out_[kPlaced] = {};
  std::unique_ptr<Operation> operation_[kPlaced];
};

TEST(Precedence, OfTwoOnAProcessorEachGoesFirstInEverySecondCall) {
  GatheringOnTwoProcessors gathering(0);
  for (int call = 0; call < 6; call++) {
    gathering.begin();
    const int first = call % 2, second = 1 - first;
    EXPECT_FALSE(gathering.works(second, 3)) << call;
    gathering.do_part(first);
    EXPECT_TRUE(gathering.works(second, 1)) << call;
    EXPECT_EQ(gathering.finish(), "") << call;
  }
}

TEST(Precedence, IsGivenForAFewLooksOnly) {
  GatheringOnTwoProcessors gathering(0);
  for (int call = 0; call < 4; call++) {
    gathering.begin();
    EXPECT_FALSE(gathering.works(1 - call % 2, kPrecedence - 2)) << call;
    gathering.do_part(1 - call % 2);
    EXPECT_EQ(gathering.finish(), "") << call;
  }
}

TEST(Precedence, IsOfNoUseWhereTheCacheHoldsAllOfIt) {
  GatheringOnTwoProcessors gathering(2 * (kPlaced + 1) * kGathered + 1);
  for (int call = 0; call < 4; call++) {
    gathering.begin();
    EXPECT_TRUE(gathering.works(0, 1)) << call;
    EXPECT_TRUE(gathering.works(1, 1)) << call;
    EXPECT_EQ(gathering.finish(), "") << call;
  }
}

}  // namespace
}  // namespace unisono::engine::test
