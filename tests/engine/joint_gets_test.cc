/// Who waits for a rank that copies from its memory through the kernel writes a part of it to that rank's memory: two ranks in one thread, each moved on when the test says so.

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/simulated_world.h"
#include "engine/unwritable.h"

namespace unisono::engine::test {
namespace {

constexpr std::size_t kLong = 2 << 20, kUneven = (4 << 20) + 1;
constexpr std::size_t kShort = 64 << 10, kOdd = 40'001;  // two slices, and actions instead of pieces
constexpr int kHasIt = 0, kGetsIt = 1;

/// Rank 0 has a block that rank 1 gets: by a broadcast or a scatter from rank 0, or a gather to rank 1. In private memory, in place unless said otherwise.
class Gets {
 public:
  explicit Gets(Collective collective, std::size_t block = kLong, bool in_place = true, bool offers = true)
      : collective_(collective), block_(block), in_place_(in_place), offers_(offers) {
    for (auto& memory : memory_) memory.resize(2 * block);
    own_.resize(2 * block);
    for (std::size_t i = 0; i < block; i++) source()[i] = value(i);
    for (const int r : {kHasIt, kGetsIt}) prepare(r);
  }

  /// Both begin the next call.
  void start() {
    sequence_++;
    for (const int r : {kHasIt, kGetsIt}) start(r, sequence_);
  }
  void start(int r, std::uint64_t sequence) {
    if (r == kGetsIt) std::fill_n(target(), block_, std::byte{0});
    operation_[r]->start(request(r), sequence);
  }
  /// The same, and rank 1 has got a piece, if that is not all at once, and leaves it to the test what becomes of the rest, which it has offered.
  void start_getting() {
    start();
    if (block_ <= kShort) {
      advance(kGetsIt);
      return;
    }
    run(kHasIt);
    while (copied() == 0 && advance(kGetsIt)) {
    }
  }
  bool advance(int r) { return operation_[r]->advance(); }
  bool done(int r) const { return operation_[r]->done(); }
  /// Turns of rank r until it has nothing to do.
  void run(int r) {
    while (advance(r)) {
    }
  }
  void run_both() {
    for (int turn = 0; turn < 1000 && !(done(kHasIt) && done(kGetsIt)); turn++) advance(turn % 2);
  }
  bool right() { return std::equal(source(), source() + block_, target()) && target()[77] == value(77); }
  bool done_and_right() { return done(kHasIt) && done(kGetsIt) && right(); }
  std::size_t copied() {
    return block_ - static_cast<std::size_t>(std::count(target(), target() + block_, std::byte{0}));
  }
  std::byte* target() { return memory_[kGetsIt].data(); }
  std::span<const std::unique_ptr<Operation>> operations() const { return operation_; }
  Operation& operation(int r) { return *operation_[r]; }
  std::uint64_t sequence() const { return sequence_; }
  SimulatedWorld& world() { return world_; }
  std::size_t block() const { return block_; }
  bool let_go() { return operation_[kGetsIt]->let_go({false, false}); }

 private:
  static std::byte value(std::size_t i) { return static_cast<std::byte>((i * 7 >> 8 ^ i) % 255 + 1); }
  int root() const { return collective_ == Collective::gather ? kGetsIt : kHasIt; }
  std::byte* source() { return memory_[kHasIt].data() + (collective_ == Collective::scatter ? block_ : 0); }

  Request request(int r) {
    Request request = on_memory(r);
    request.offers_get = offers_;
    return request;
  }

  Request on_memory(int r) {
    std::byte* const memory = memory_[r].data();
    // Of a gather's root in place the block of rank 1, which it is, is the second one.
    if (collective_ == Collective::gather && r == kGetsIt) return {prepared_[r], memory + block_, memory};
    if (r == root() && !in_place_) return {prepared_[r], memory, own_.data()};
    return {prepared_[r], memory, memory};
  }

  void prepare(int r) {
    const auto prepared = std::make_shared<Prepared>();
    prepared->usual = world_.bound_plan({.collective = collective_,
                                         .algorithm = "single_copy",
                                         .dtype = DType::u8,
                                         .root = root(),
                                         .count = static_cast<std::int64_t>(block_)},
                                        r);
    prepared->reads_peers = true;
    prepared->dtype = DType::u8;
    prepared->signature = Signature::make({collective_, DType::u8, ReduceOp::sum, root(), false, 0}, block_);
    prepared_[r] = prepared;
    operation_[r] = std::make_unique<Operation>(world_.ground(r));
  }

  const Collective collective_;
  const std::size_t block_;
  const bool in_place_, offers_;
  SimulatedWorld world_{2, {}, 0};
  std::vector<std::byte> memory_[2], own_;
  std::shared_ptr<const Prepared> prepared_[2];
  std::unique_ptr<Operation> operation_[2];
  std::uint64_t sequence_ = 0;
};

class JointGets : public testing::TestWithParam<std::pair<Collective, std::size_t>> {
 protected:
  Gets gets_{GetParam().first, GetParam().second};
};

TEST_P(JointGets, WhoWaitsWritesAPart) {
  for (int call = 0; call < 5; call++) {  // records are used again
    gets_.start_getting();
    EXPECT_LE(gets_.copied(), gets_.block() * 5 / 8) << "it has left nothing to be helped with";
    gets_.run(kHasIt);
    EXPECT_EQ(gets_.copied(), gets_.block()) << "call " << call;
    EXPECT_FALSE(gets_.done(kHasIt) || gets_.done(kGetsIt));
    gets_.run_both();
    ASSERT_TRUE(gets_.done_and_right());
  }
}

TEST_P(JointGets, TheOtherDoesItAllWhereNobodyComes) {
  gets_.start();
  gets_.advance(kHasIt);
  gets_.run(kGetsIt);
  EXPECT_TRUE(gets_.done(kGetsIt) && gets_.right());
  gets_.run(kHasIt);
  EXPECT_TRUE(gets_.done(kHasIt));
}

TEST_P(JointGets, InAnyOrder) {
  std::mt19937 random(1);
  const bool ended = play_calls(
      gets_.operations(), 60, random, [&](int r, std::uint64_t call) { gets_.start(r, call + 1); },
      [&](int r, std::uint64_t call) {
        ASSERT_TRUE(gets_.operation(r).status().ok());
        ASSERT_TRUE(r != kGetsIt || gets_.right()) << "call " << call;
      });
  EXPECT_TRUE(ended);
}

TEST_P(JointGets, AfterAFailureNobodyWrites) {
  gets_.start_getting();
  EXPECT_TRUE(gets_.let_go()) << "nobody is at a slice of it";
  std::fill_n(gets_.target(), gets_.block(), std::byte{0});
  gets_.run(kHasIt);
  EXPECT_EQ(gets_.copied(), 0U);
  EXPECT_FALSE(gets_.done(kHasIt));
}

TEST_P(JointGets, WhoIsWrittenToDoesNotLetGo) {
  gets_.start_getting();
  OfferedGet* const offered = gets_.world().rank(kHasIt).domain->offered_get(kGetsIt, gets_.sequence());
  ASSERT_NE(offered, nullptr);
  JointWork stopped(offered->work, JointWork::Side::other);
  const auto piece = stopped.claim(1);  // and then it is stopped
  ASSERT_TRUE(piece);
  EXPECT_FALSE(gets_.let_go());
  EXPECT_FALSE(stopped.claim(1)) << "nothing else is begun";
  EXPECT_TRUE(gets_.operation(kGetsIt).let_go({true, false})) << "who has ended writes nothing";
  stopped.finish(*piece);
  EXPECT_TRUE(gets_.let_go());
}

/// It had claimed a slice when it was stopped, and goes on when the other has its memory back.
TEST_P(JointGets, WhoWasStoppedFindsNothingToWriteTo) {
  gets_.start_getting();
  Domain& domain = *gets_.world().rank(kHasIt).domain;
  OfferedGet* const offered = domain.offered_get(kGetsIt, gets_.sequence());
  ASSERT_NE(offered, nullptr);
  JointWork stopped(offered->work, JointWork::Side::other);
  const auto piece = stopped.claim(1);
  ASSERT_TRUE(piece);
  EXPECT_FALSE(gets_.let_go()) << "it may be writing: a second is waited for that";
  const std::vector<std::byte> ours(piece->bytes, std::byte{1});
  const auto to = offered->to.areas(*piece, stopped.slice());
  std::fill_n(gets_.target(), gets_.block(), std::byte{0});
  EXPECT_EQ(domain.write_peer(kGetsIt, to, ours.data(), ours.size()), EFAULT);
  EXPECT_EQ(gets_.copied(), 0U);
}

TEST_P(JointGets, WhoWasStoppedIsNamed) {
  gets_.start_getting();
  OfferedGet* const offered = gets_.world().rank(kHasIt).domain->offered_get(kGetsIt, gets_.sequence());
  ASSERT_NE(offered, nullptr);
  ASSERT_TRUE(JointWork(offered->work, JointWork::Side::other).claim(1));
  gets_.run(kHasIt);
  gets_.run(kGetsIt);
  EXPECT_FALSE(gets_.done(kGetsIt));
  EXPECT_EQ(gets_.operation(kGetsIt).waiting_for(), std::vector<int>{kHasIt});
}

TEST_P(JointGets, WhatCannotBeWrittenToIsCopiedByItsOwner) {
  SimulatedRank& writer = gets_.world().rank(kHasIt);
  SimulatedRank& owner = gets_.world().rank(kGetsIt);
  Unwritable unwritable(*writer.messenger->shared(0), EFAULT);
  ASSERT_TRUE(writer.domain->attach(kGetsIt, &unwritable, owner.domain->control_offset()).ok());
  for (int call = 0; call < 4; call++) {
    gets_.start_getting();
    gets_.run(kHasIt);
    EXPECT_LT(gets_.copied(), gets_.block());
    gets_.run_both();
    ASSERT_TRUE(gets_.done_and_right()) << call;
    EXPECT_EQ(unwritable.tries, 1) << "it is not tried again";
  }
}

INSTANTIATE_TEST_SUITE_P(Rooted, JointGets, testing::ValuesIn([] {
                           std::vector<std::pair<Collective, std::size_t>> all;
                           for (const auto collective :
                                {Collective::broadcast, Collective::scatter, Collective::gather})
                             for (const std::size_t block : {kLong, kUneven, kShort, kOdd})
                               all.emplace_back(collective, block);
                           return all;
                         }()),
                         [](const auto& which) {
                           return std::string(name_of(which.param.first)) + "_" + std::to_string(which.param.second);
                         });

/// A root that has as much to copy itself helps nobody.
TEST(JointGetsNot, FromARootThatHasAsMuchToCopy) {
  for (const Collective collective : {Collective::broadcast, Collective::scatter}) {
    Gets gets(collective, kLong, false);
    gets.start_getting();
    const std::size_t before = gets.copied();
    gets.run(kHasIt);
    EXPECT_EQ(gets.copied(), before);
    gets.run_both();
    EXPECT_TRUE(gets.done_and_right());
  }
}

TEST(JointGetsNot, WhereNothingIsOffered) {
  Gets gets(Collective::broadcast, kLong, true, false);
  gets.start_getting();
  const std::size_t before = gets.copied();
  EXPECT_EQ(gets.world().rank(kHasIt).domain->offered_get(kGetsIt, 1), nullptr);
  gets.run(kHasIt);
  EXPECT_EQ(gets.copied(), before);
  gets.run_both();
  EXPECT_TRUE(gets.done_and_right());
}

/// Both are at it at once: the owner's slice is the longer one, and what it has it need not share.
TEST(JointGets, AShortOneHasTwoSlices) {
  for (const std::uint64_t bytes : {5'000, 40'001, 64 << 10, 200 << 10, 256 << 10}) {
    const std::uint64_t slice = Landing::slice_for(bytes);
    EXPECT_LT(slice, bytes) << bytes;
    EXPECT_LE(bytes, 2 * slice) << bytes;
  }
}

}  // namespace
}  // namespace unisono::engine::test
