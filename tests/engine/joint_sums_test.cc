/// A reduce through the kernel of which the rank that waits does a part, too: it reads the root's operand, and writes sums to the root's memory. Two ranks in one thread.

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include "engine/simulated_world.h"
#include "engine/unwritable.h"

namespace unisono::engine::test {
namespace {

using Ints = std::vector<std::int32_t>;

/// `count` elements are summed at rank `root`, in place or not.
class Sums {
 public:
  Sums(std::size_t count, int root, bool in_place) : count_(count), root_(root), in_place_(in_place) {
    for (const int r : {0, 1}) {
      operand_[r].resize(count);
      prepare(r);
    }
    if (!in_place) result_.resize(count);
  }
  /// The next call begins at rank r.
  void start(int r, std::uint64_t sequence) {
    std::iota(operand_[r].begin(), operand_[r].end(), static_cast<std::int32_t>(sequence) * (r + 1));
    if (r == root_ && !in_place_) std::ranges::fill(result_, -1);
    auto* const in = reinterpret_cast<std::byte*>(operand_[r].data());
    Request request{prepared_[r], in, r == root_ ? reinterpret_cast<std::byte*>(result().data()) : nullptr};
    request.offers_get = true;
    operation_[r]->start(request, sequence);
  }
  void run(int r) {
    while (operation_[r]->advance()) {
    }
  }
  /// Both have begun, and the root has said what it offers, but done nothing.
  void offer(std::uint64_t sequence) {
    for (const int r : {0, 1}) start(r, sequence);
    operation_[root_]->advance();
  }
  /// How many elements of the result are those of call `sequence`.
  std::size_t summed(std::uint64_t sequence) {
    std::size_t right = 0;
    for (std::size_t i = 0; i < count_; i++) right += result()[i] == static_cast<std::int32_t>(3 * sequence + 2 * i);
    return right;
  }
  Ints& result() { return in_place_ ? operand_[root_] : result_; }
  Operation& root() { return *operation_[root_]; }
  Operation& other() { return *operation_[1 - root_]; }
  int root_rank() const { return root_; }
  std::size_t count() const { return count_; }
  std::span<const std::unique_ptr<Operation>> operations() const { return operation_; }
  SimulatedWorld& world() { return world_; }
  OfferedGet* offered(std::uint64_t sequence) { return world_.rank(1 - root_).domain->offered_get(root_, sequence); }

 private:
  void prepare(int r) {
    const auto prepared = std::make_shared<Prepared>();
    const auto count = static_cast<std::int64_t>(count_);
    prepared->usual = world_.bound_plan({.collective = Collective::reduce,
                                         .algorithm = "single_copy",
                                         .dtype = DType::i32,
                                         .root = root_,
                                         .count = count},
                                        r);
    prepared->reads_peers = true;
    prepared->dtype = DType::i32;
    prepared->op = ReduceOp::sum;
    prepared->signature = Signature::make({Collective::reduce, DType::i32, ReduceOp::sum, root_, false, 0}, count);
    prepared_[r] = prepared;
    operation_[r] = std::make_unique<Operation>(world_.ground(r));
  }

  const std::size_t count_;
  const int root_;
  const bool in_place_;
  SimulatedWorld world_{2, {}, 0};
  Ints operand_[2], result_;
  std::shared_ptr<const Prepared> prepared_[2];
  std::unique_ptr<Operation> operation_[2];
};

class JointSums : public testing::TestWithParam<std::tuple<std::size_t, int, bool>> {
 protected:
  Sums sums_{std::get<0>(GetParam()), std::get<1>(GetParam()), std::get<2>(GetParam())};
};

TEST_P(JointSums, WhoWaitsSumsAPart) {
  for (std::uint64_t call = 1; call <= 5; call++) {  // records are used again
    sums_.offer(call);
    EXPECT_EQ(sums_.summed(call), 0U);
    sums_.run(1 - sums_.root_rank());
    EXPECT_EQ(sums_.summed(call), sums_.count()) << "nobody else was there";
    EXPECT_FALSE(sums_.other().done());
    sums_.run(sums_.root_rank());
    EXPECT_TRUE(sums_.root().done());
    EXPECT_EQ(sums_.summed(call), sums_.count());
    sums_.run(1 - sums_.root_rank());
    EXPECT_TRUE(sums_.other().done());
  }
}

TEST_P(JointSums, TheRootDoesItAllWhereNobodyComes) {
  sums_.offer(1);
  sums_.other().advance();  // it has begun; what it does is what the root has offered
  sums_.run(sums_.root_rank());
  EXPECT_TRUE(sums_.root().done());
  EXPECT_EQ(sums_.summed(1), sums_.count());
}

TEST_P(JointSums, InAnyOrder) {
  std::mt19937 random(2);
  const bool ended = play_calls(
      sums_.operations(), 40, random, [&](int r, std::uint64_t call) { sums_.start(r, call + 1); },
      [&](int r, std::uint64_t call) {
        ASSERT_TRUE(sums_.operations()[static_cast<std::size_t>(r)]->status().ok());
        ASSERT_TRUE(r != sums_.root_rank() || sums_.summed(call + 1) == sums_.count()) << "call " << call;
      });
  EXPECT_TRUE(ended);
}

TEST_P(JointSums, AfterAFailureNobodyWrites) {
  sums_.offer(1);
  EXPECT_TRUE(sums_.root().let_go({false, false}));
  std::ranges::fill(sums_.result(), 7);
  sums_.run(1 - sums_.root_rank());
  EXPECT_EQ(std::ranges::count(sums_.result(), 7), static_cast<std::ptrdiff_t>(sums_.count()));
}

TEST_P(JointSums, WhoWasStoppedIsWaitedForAndNamed) {
  sums_.offer(1);
  OfferedGet* const offered = sums_.offered(1);
  ASSERT_NE(offered, nullptr);
  JointWork stopped(offered->work, JointWork::Side::other);
  const auto piece = stopped.claim(1);
  ASSERT_TRUE(piece);
  sums_.run(1 - sums_.root_rank());
  sums_.run(sums_.root_rank());
  EXPECT_FALSE(sums_.root().done());
  EXPECT_EQ(sums_.root().waiting_for(), std::vector<int>{1 - sums_.root_rank()});
  EXPECT_FALSE(sums_.root().let_go({false, false}));
  stopped.finish(*piece);
  EXPECT_TRUE(sums_.root().let_go({false, false}));
}

INSTANTIATE_TEST_SUITE_P(Reduce, JointSums,
                         testing::Combine(testing::Values(std::size_t{10'001}, std::size_t{16'384},
                                                          std::size_t{300'001}, std::size_t{1 << 20}),
                                          testing::Values(0, 1), testing::Bool()));

/// The rank that waits sees `error` when it writes.
std::unique_ptr<Unwritable> refuse(Sums& sums, int error) {
  SimulatedRank& writer = sums.world().rank(1);
  auto view = std::make_unique<Unwritable>(*writer.messenger->shared(0), error);
  EXPECT_TRUE(writer.domain->attach(0, view.get(), sums.world().rank(0).domain->control_offset()).ok());
  return view;
}

TEST(JointSumsNot, WhatCannotBeWrittenTo) {
  Sums sums(300'001, 0, true);
  const auto refused = refuse(sums, EFAULT);
  for (std::uint64_t call = 1; call <= 3; call++) {
    sums.offer(call);
    for (const int r : {1, 0, 1}) sums.run(r);
    EXPECT_TRUE(sums.root().done() && sums.other().done());
    EXPECT_EQ(sums.summed(call), sums.count());
  }
  EXPECT_EQ(refused->tries, 1);
}

/// The root's operand has lain where now sums lie, or not: nobody can go on.
TEST(JointSumsNot, WhatIsWrittenInPart) {
  Sums sums(300'001, 0, true);
  const auto refused = refuse(sums, EIO);
  sums.offer(1);
  sums.run(1);
  EXPECT_EQ(refused->tries, 1);
  EXPECT_FALSE(sums.other().status().ok());
  EXPECT_NE(sums.other().status().message().find("in part only"), std::string::npos) << sums.other().status().message();
}

/// Slices would not fit into what is fetched at a time.
TEST(JointSumsNot, OfMoreThanSoMany) {
  for (const bool more : {false, true}) {
    Sums sums(static_cast<std::size_t>(kMostSummed) / sizeof(std::int32_t) + (more ? 1 : 0), 0, true);
    sums.offer(1);
    EXPECT_EQ(sums.offered(1) == nullptr, more);
    for (const int r : {1, 0, 1}) sums.run(r);
    EXPECT_TRUE(sums.root().done() && sums.other().done());
    EXPECT_EQ(sums.summed(1), sums.count());
  }
}

}  // namespace
}  // namespace unisono::engine::test
