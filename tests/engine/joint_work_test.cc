#include "engine/joint_work.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace unisono::engine {
namespace {

using Side = JointWork::Side;

JointRecord& fill_in(JointRecord& record, std::uint64_t bytes, std::uint64_t slice) {
  record.bytes = bytes, record.slice = slice, record.owner_in_front = 1;
  return record;
}

TEST(JointWork, TheOwnerComesFromTheBeginningAndTheOthersFromTheEnd) {
  JointRecord record;
  fill_in(record, 1000, 100);
  JointWork owner(record, Side::owner), one(record, Side::other), two(record, Side::other);
  EXPECT_EQ(owner.claim(1), (JointWork::Piece{0, 100, 1}));
  EXPECT_EQ(one.claim(1), (JointWork::Piece{900, 100, 1}));
  EXPECT_EQ(two.claim(1), (JointWork::Piece{800, 100, 1}));
  EXPECT_EQ(owner.claim(1), (JointWork::Piece{100, 100, 1}));
  EXPECT_EQ(owner.left(), 600U);
}

TEST(JointWork, OfWhatIsLeftASideTakesAQuarterAtMost) {
  JointRecord record;
  fill_in(record, 1950, 100);  // 20 slices, the last one shorter
  JointWork owner(record, Side::owner), other(record, Side::other);
  EXPECT_EQ(other.claim(8), (JointWork::Piece{1500, 450, 5}));
  EXPECT_EQ(owner.claim(2), (JointWork::Piece{0, 200, 2}));
  EXPECT_EQ(owner.claim(8), (JointWork::Piece{200, 300, 3}));
  EXPECT_EQ(other.claim(8), (JointWork::Piece{1300, 200, 2}));
  std::uint64_t slices = 0;
  while (const auto piece = owner.claim(8)) slices += piece->slices;
  EXPECT_EQ(slices, 8U);
  EXPECT_FALSE(other.claim(8));
}

TEST(JointWork, ItIsFinishedWhenAllThatWasClaimedIs) {
  JointRecord record;
  fill_in(record, 150, 100);
  JointWork owner(record, Side::owner), other(record, Side::other);
  const auto front = owner.claim(1), back = other.claim(1);
  ASSERT_TRUE(front && back);
  EXPECT_EQ(back->bytes, 50U);
  owner.finish(*front);
  EXPECT_FALSE(owner.all_finished());
  other.finish(*back);
  EXPECT_TRUE(owner.all_finished() && other.all_finished());
}

TEST(JointWork, BehindAStopNothingIsClaimed) {
  JointRecord record;
  fill_in(record, 1000, 100);
  JointWork owner(record, Side::owner), other(record, Side::other);
  const auto piece = other.claim(1);
  ASSERT_TRUE(piece);
  owner.stop();
  EXPECT_TRUE(other.stopped(Side::owner));
  EXPECT_FALSE(other.claim(1));
  EXPECT_FALSE(owner.claim(1));
  EXPECT_FALSE(owner.quiet()) << "the other is still at its piece";
  other.finish(*piece);
  EXPECT_TRUE(owner.quiet());
}

TEST(JointWork, WhatIsGivenBackIsForAnybody) {
  JointRecord record;
  fill_in(record, 300, 100);
  JointWork owner(record, Side::owner), other(record, Side::other);
  const auto back = other.claim(1), front = owner.claim(1);
  ASSERT_TRUE(back && front && owner.claim(1));
  EXPECT_FALSE(owner.claim(1));
  other.unclaim(*back);
  EXPECT_EQ(owner.claim(1), back);
  owner.unclaim(*back);
  other.stop();
  EXPECT_FALSE(other.quiet()) << "two are being worked on";
  owner.finish(*front);
  owner.finish(*front);
  EXPECT_TRUE(other.quiet() && !other.all_finished());
}

TEST(JointWork, NothingToDoIsFinished) {
  JointRecord record;
  fill_in(record, 0, JointWork::slice_of(0, 4096));
  JointWork owner(record, Side::owner);
  EXPECT_FALSE(owner.claim(1));
  EXPECT_TRUE(owner.all_finished());
}

TEST(JointWork, SlicesCanBeCounted) {
  EXPECT_EQ(JointWork::slice_of(1 << 30, 1), 4096U);
  EXPECT_EQ(JointWork::slice_of(1 << 30, 100000), 102400U);
  EXPECT_GE(JointWork::slice_of(std::uint64_t{1} << 50, 4096), std::uint64_t{1} << 28);
}

TEST(JointWork, ThereAreNoMoreSlicesThanPlaces) {
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{32} << 17, std::uint64_t{1} << 40})
    for (const std::uint64_t more : {0, 1, 4, 31, 32, 4095, 4096}) {
      JointRecord record;
      fill_in(record, bytes + more, JointWork::slice_of(bytes + more, 128 << 10, 32));
      EXPECT_LE(JointWork(record, Side::owner).slices(), 32U) << bytes << " + " << more;
      EXPECT_GE(record.slice, std::uint64_t{128 << 10});
    }
}

TEST(JointWork, ThreadsDoEverySliceOnce) {
  constexpr std::uint64_t kSlices = 20000;
  JointRecord record;
  fill_in(record, kSlices * 64, 64);
  std::vector<int> done(kSlices);  // written without a lock: each by who claimed it
  const auto work = [&](Side side) {
    JointWork mine(record, side);
    while (const auto piece = mine.claim(3)) {
      for (std::uint64_t k = 0; k < piece->slices; k++) done[piece->at / 64 + k]++;
      mine.finish(*piece);
    }
    while (!mine.all_finished()) std::this_thread::yield();
    for (const int times : done) ASSERT_EQ(times, 1);
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; t++) threads.emplace_back(work, t == 0 ? Side::owner : Side::other);
  for (std::thread& t : threads) t.join();
}

}  // namespace
}  // namespace unisono::engine
