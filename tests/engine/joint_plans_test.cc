/// Who waits for a rank does a part of its copy (plan/ir.h, "joint plans"): two ranks in one thread, each moved on when the test says so.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/simulated_world.h"

namespace unisono::engine::test {
namespace {

constexpr std::size_t kMessage = 4 << 20;
constexpr int kRoot = 0, kOther = 1;

/// A gather to rank 0, or a scatter from there, in place, with all buffers in shared memory.
class Pair {
 public:
  explicit Pair(Collective collective, bool other_is_shared = true) : gathers_(collective == Collective::gather) {
    for (int r = 0; r < 2; r++) {
      SimulatedRank& rank = world_.rank(r);
      const std::size_t bytes = r == kRoot ? 2 * kMessage : kMessage;
      memory_[r] = rank.segment->base() + rank.segment->allocate_buffer(bytes).value();
      if (r == kOther && !other_is_shared) private_.resize(kMessage), memory_[r] = private_.data();
      std::memset(memory_[r], 0, bytes);
    }
    for (std::size_t i = 0; i < kMessage; i++) source()[i] = value(i);
    for (int r = 0; r < 2; r++) start(collective, r);
  }

  bool advance(int r) { return operation_[r]->advance(); }
  bool done(int r) const { return operation_[r]->done(); }
  /// Turns of rank r until it has nothing to do; how many had.
  int run(int r) {
    int turns = 0;
    while (advance(r)) turns++;
    return turns;
  }
  bool let_go(int r) { return operation_[r]->let_go({false, false}); }
  std::vector<int> waiting_for(int r) const { return operation_[r]->waiting_for(); }

  std::byte* source() { return gathers_ ? memory_[kOther] : memory_[kRoot] + kMessage; }
  std::byte* target() { return gathers_ ? memory_[kRoot] + kMessage : memory_[kOther]; }
  bool right() { return std::equal(source(), source() + kMessage, target()) && target()[77] == value(77); }
  std::size_t copied() {
    return kMessage - static_cast<std::size_t>(std::count(target(), target() + kMessage, std::byte{0}));
  }

 private:
  static std::byte value(std::size_t i) { return static_cast<std::byte>((i * 7 >> 8 ^ i) % 255 + 1); }

  void start(Collective collective, int r) {
    const Ground ground = world_.ground(r);
    const auto prepared = std::make_shared<Prepared>();
    const auto plan = [&](const char* name) {
      return world_.bound_plan(
          {.collective = collective, .algorithm = name, .dtype = DType::u8, .root = kRoot, .count = kMessage}, r);
    };
    prepared->usual = plan("staged");
    prepared->shared = plan("shared");
    prepared->dtype = DType::u8;
    prepared->signature = Signature::make({collective, DType::u8, ReduceOp::sum, kRoot, false, 0}, kMessage);
    operation_[r] = std::make_unique<Operation>(Request{prepared, memory_[r], memory_[r]}, ground, 1);
  }

  const bool gathers_;
  SimulatedWorld world_{2, {}, 0};
  std::byte* memory_[2] = {};
  std::vector<std::byte> private_;
  std::unique_ptr<Operation> operation_[2];
};

class JointPlans : public testing::TestWithParam<Collective> {};

TEST_P(JointPlans, TheRootCopiesWhatTheOtherHasNotYet) {
  Pair p(GetParam());
  p.run(kRoot);
  while (p.copied() == 0) ASSERT_TRUE(p.advance(kOther));
  const std::size_t before = p.copied();
  EXPECT_LT(before, kMessage / 2) << "it left nothing to be helped with";
  EXPECT_GT(p.run(kRoot), 0);
  EXPECT_TRUE(p.right()) << "all is copied, though the other has not come back";
  EXPECT_FALSE(p.done(kRoot));
  p.run(kOther);
  p.run(kRoot);
  EXPECT_TRUE(p.done(kRoot) && p.done(kOther) && p.right());
}

TEST_P(JointPlans, InTurns) {
  Pair p(GetParam());
  int of_root = 0, of_other = 0;
  while (!p.done(kRoot) || !p.done(kOther)) {
    const std::size_t before = p.copied();
    p.advance(kRoot);
    const std::size_t between = p.copied();
    p.advance(kOther);
    of_root += between > before ? 1 : 0;
    of_other += p.copied() > between ? 1 : 0;
  }
  EXPECT_TRUE(p.right());
  EXPECT_GT(of_root, 1);
  EXPECT_GT(of_other, 1);
}

TEST_P(JointPlans, TheOtherDoesItAllWhereTheRootDoesNotCome) {
  Pair p(GetParam());
  p.run(kRoot);
  p.run(kOther);
  EXPECT_TRUE(p.right());
  EXPECT_TRUE(p.done(kOther));
}

TEST_P(JointPlans, PrivateMemoryIsNobodyElses) {
  Pair p(GetParam(), false);
  p.run(kRoot);
  while (p.copied() == 0) ASSERT_TRUE(p.advance(kOther));
  EXPECT_EQ(p.run(kRoot), 0);
  p.run(kOther);
  p.run(kRoot);
  EXPECT_TRUE(p.done(kRoot) && p.done(kOther) && p.right());
}

TEST_P(JointPlans, AfterAFailureNobodyCopiesOn) {
  Pair p(GetParam());
  p.run(kRoot);
  while (p.copied() == 0) ASSERT_TRUE(p.advance(kOther));
  EXPECT_TRUE(p.let_go(kOther)) << "nobody is at a slice of it";
  std::memset(p.target(), 0, kMessage);
  p.run(kRoot);
  EXPECT_EQ(p.copied(), 0U);
  EXPECT_FALSE(p.done(kRoot));
  EXPECT_EQ(p.waiting_for(kRoot), std::vector<int>{kOther});
}

INSTANTIATE_TEST_SUITE_P(Rooted, JointPlans, testing::Values(Collective::gather, Collective::scatter),
                         [](const auto& collective) { return std::string(name_of(collective.param)); });

}  // namespace
}  // namespace unisono::engine::test
