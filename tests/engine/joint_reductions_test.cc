/// Who waits does a part of the others' reductions (plan/ir.h, "joint plans"): ranks in one thread, each moved on when the test says so.

#include <gmock/gmock.h>
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

using testing::ElementsAre;

constexpr int kRanks = 3;
/// Together they do not fit into the caches, and the blocks are not equally long.
constexpr std::int64_t kCount = (12 << 18) + 5;
constexpr std::size_t kVector = kCount * sizeof(float);

/// An all_reduce, or a reduce to rank 0, of floats whose sum depends on the order; all buffers are in shared memory.
class Trio {
 public:
  explicit Trio(Collective collective, bool in_place = true) : collective_(collective) {
    for (int r = 0; r < kRanks; r++) {
      in_[r] = allocate(r);
      out_[r] = in_place ? in_[r] : allocate(r);
      for (std::int64_t i = 0; i < kCount; i++) in_[r][i] = input(r, i);
    }
    for (int r = 0; r < kRanks; r++) start(r);
  }

  bool advance(int r) { return operation_[r]->advance(); }
  bool done(int r) const { return operation_[r]->done(); }
  bool all_done() const { return done(0) && done(1) && done(2); }
  /// Turns of rank r until it has nothing to do; how many had.
  int run(int r) {
    int turns = 0;
    while (advance(r)) turns++;
    return turns;
  }
  /// All have begun, rank 0 has done its own block, and rank 2 a piece of its own.
  void begin() {
    advance(2);
    advance(1);
    run(0);
    while (summed(2) == 0) ASSERT_TRUE(advance(2));
  }
  /// To the end, by turns.
  void finish() {
    while (!all_done()) {
      bool moved = false;
      for (int r = 0; r < kRanks; r++) moved |= !done(r) && advance(r);
      ASSERT_TRUE(moved);
    }
  }
  bool let_go(int r, std::vector<bool> gone = {false, false, false}) { return operation_[r]->let_go(gone); }
  std::vector<int> waiting_for(int r) const { return operation_[r]->waiting_for(); }
  Domain& domain(int r) { return *world_.rank(r).domain; }

  /// How many elements of rank r's block are summed up, wherever the result goes.
  std::int64_t summed(int r) const {
    const auto [from, to] = block(r);
    std::int64_t yes = 0;
    for (std::int64_t i = from; i < to; i++) yes += out_[0][i] == sum(i) ? 1 : 0;
    return yes;
  }
  std::int64_t size(int r) const { return block(r).second - block(r).first; }
  bool right() const {
    for (int r = 0; r < (collective_ == Collective::reduce ? 1 : kRanks); r++)
      for (std::int64_t i = 0; i < kCount; i++)
        if (out_[r][i] != sum(i)) return false;
    return true;
  }

 private:
  static float input(int r, std::int64_t i) {
    return 1.0F + static_cast<float>((i * 7 + r * 31) % 1021) / (r == 1 ? 3e6F : 3.0F);
  }
  /// From the left: the bits are the same whoever adds.
  static float sum(std::int64_t i) { return input(0, i) + input(1, i) + input(2, i); }
  /// Its elements: from the first on, before the last.
  std::pair<std::int64_t, std::int64_t> block(int r) const {
    const std::int64_t from = blocks_.out.offset[r] / 4;
    return {from, from + blocks_.out.size(r) / 4};
  }
  float* allocate(int r) {
    SimulatedRank& rank = world_.rank(r);
    return reinterpret_cast<float*>(rank.segment->base() + rank.segment->allocate_buffer(kVector).value());
  }

  void start(int r) {
    const Ground ground = world_.ground(r);
    const auto prepared = std::make_shared<Prepared>();
    const auto plan = [&](const char* name) {
      return world_.bound_plan({.collective = collective_, .algorithm = name, .dtype = DType::f32, .count = kCount}, r);
    };
    prepared->usual = plan(collective_ == Collective::reduce ? "staged" : "staged_two_shot");
    prepared->shared = plan("shared");
    if (r == 0) blocks_ = prepared->shared.binding;
    prepared->dtype = DType::f32;
    prepared->signature = Signature::make({collective_, DType::f32, ReduceOp::sum, 0, false, 0}, kCount);
    operation_[r] = std::make_unique<Operation>(
        Request{prepared, reinterpret_cast<std::byte*>(in_[r]), reinterpret_cast<std::byte*>(out_[r])}, ground, 1);
  }

  const Collective collective_;
  SimulatedWorld world_{kRanks, {}, 0};
  float *in_[kRanks] = {}, *out_[kRanks] = {};
  Binding blocks_;  ///< rank 0's
  std::unique_ptr<Operation> operation_[kRanks];
};

class JointReductions : public testing::TestWithParam<Collective> {};

TEST_P(JointReductions, WhoHasDoneItsOwnDoesWhatIsLeftOfTheOthers) {
  Trio t(GetParam());
  t.begin();
  EXPECT_EQ(t.summed(0), t.size(0));
  EXPECT_LT(t.summed(2), t.size(2) / 2) << "it left nothing to be helped with";
  EXPECT_GT(t.run(0), 0);
  EXPECT_EQ(t.summed(2), t.size(2)) << "though rank 2 has not come back";
  EXPECT_FALSE(t.done(0)) << "rank 2 still has to say so";
  t.finish();
  EXPECT_TRUE(t.right());
}

TEST_P(JointReductions, NobodyTouchesWhatItsOwnerHasNotBegun) {
  Trio t(GetParam());
  t.begin();
  t.run(0);
  EXPECT_EQ(t.summed(1), 0);
  EXPECT_EQ(t.run(0), 0);
  t.finish();
  EXPECT_TRUE(t.right());
}

TEST_P(JointReductions, InAnyOrderTheBitsAreTheSame) {
  for (const bool in_place : {true, false})
    for (unsigned seed = 0; seed < 10; seed++) {
      Trio t(GetParam(), in_place);
      std::mt19937 random(seed);
      while (!t.all_done()) t.advance(static_cast<int>(random() % kRanks));
      EXPECT_TRUE(t.right()) << "seed " << seed << (in_place ? " in place" : "");
    }
}

TEST_P(JointReductions, WhoStoppedInTheMiddleOfAPieceIsNamed) {
  Trio t(GetParam());
  t.begin();
  // What rank 0 does when it helps, up to where its process is stopped.
  OfferedWork* const offered = t.domain(0).offered(2, 1);
  ASSERT_NE(offered, nullptr);
  t.domain(0).helps(2);
  JointWork work(offered->work, JointWork::Side::other);
  const auto piece = work.claim(1);
  ASSERT_TRUE(piece);

  t.run(2);
  t.run(1);
  EXPECT_THAT(t.waiting_for(2), ElementsAre(0));
  EXPECT_THAT(t.waiting_for(1), ElementsAre(0, 2)) << "rank 2, who may wait for rank 0";
  EXPECT_FALSE(t.done(1) || t.done(2));
}

TEST_P(JointReductions, AfterAFailureNobodyBeginsAPiece) {
  Trio t(GetParam());
  t.begin();
  const std::int64_t before = t.summed(2);
  EXPECT_FALSE(t.let_go(2)) << "the others have not noticed yet";
  EXPECT_EQ(t.run(0) + t.run(1), 0);
  EXPECT_EQ(t.summed(2), before);
  EXPECT_FALSE(t.let_go(0));
  EXPECT_FALSE(t.let_go(2));
  EXPECT_TRUE(t.let_go(1)) << "all have given up";
  EXPECT_TRUE(t.let_go(0));
  EXPECT_TRUE(t.let_go(2));
}

INSTANTIATE_TEST_SUITE_P(Shared, JointReductions, testing::Values(Collective::all_reduce, Collective::reduce),
                         [](const auto& collective) { return std::string(name_of(collective.param)); });

}  // namespace
}  // namespace unisono::engine::test
