#include "engine/stage_ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "engine/domain.h"

namespace unisono::engine {
namespace {

TEST(MessagesWindow, IsAsLongAsTheWay) {
  using namespace std::chrono_literals;
  EXPECT_LT(messages_window(true, 0us), messages_window(false, 0us));
  EXPECT_EQ(messages_window(false, 0us), messages_window(false, 300us)) << "unknown, or a few switches";
  EXPECT_LT(messages_window(false, 20us), messages_window(false, 300us)) << "one switch";
  EXPECT_EQ(messages_window(false, 20ms), kWindow);
}

TEST(StageRing, PlacesFollowEachOtherOnWholeLines) {
  StageRing ring(1024);
  EXPECT_EQ(ring.take(0, 100).offset, 0u);
  EXPECT_EQ(ring.take(1, 64).offset, 128u);
  EXPECT_EQ(ring.take(2, 1).offset, 192u);
  EXPECT_EQ(ring.take(3, 64).offset, 256u);
}

TEST(StageRing, APlaceIsFreeOnceAllWhoLayThereAreDone) {
  StageRing ring(256);
  for (std::uint64_t slice = 0; slice < 4; slice++) EXPECT_EQ(ring.take(slice, 64).free_after, 0u) << slice;
  EXPECT_EQ(ring.take(4, 128).free_after, 2u);  // over slices 0 and 1
  EXPECT_EQ(ring.take(5, 128).free_after, 4u);
  EXPECT_EQ(ring.take(6, 256).free_after, 6u);
}

TEST(StageRing, WhatDoesNotFitAtTheEndGoesToTheFront) {
  StageRing ring(256);
  ring.take(0, 64);
  ring.take(1, 128);
  const auto place = ring.take(2, 128);
  EXPECT_EQ(place.offset, 0u);
  EXPECT_EQ(place.free_after, 2u);
}

TEST(StageRing, NothingNeedsNoPlace) {
  StageRing ring(64);
  ring.take(0, 64);
  EXPECT_EQ(ring.take(1, 0).free_after, 0u);
  EXPECT_EQ(ring.take(2, 64).free_after, 1u);
}

TEST(StageRing, BehindShortPlacesALittleIsLeftFree) {
  StageRing ring(1 << 20);
  EXPECT_EQ(ring.take(0, 4096).offset, 0u);
  EXPECT_EQ(ring.take(1, 100).offset, 5120u);
  EXPECT_EQ(ring.take(2, 8192).offset, 5120u + 128 + 1024);
  EXPECT_EQ(ring.take(3, 64).offset, 5120u + 128 + 1024 + 8192);
  StageRing small(1024);  // none to spare
  EXPECT_EQ(small.take(0, 128).offset, 0u);
  EXPECT_EQ(small.take(1, 128).offset, 128u);
}

TEST(StageRing, CountsItsTurns) {
  StageRing ring(64 << 10);
  for (std::uint64_t slice = 0; slice < 12; slice++) EXPECT_EQ(ring.take(slice, 16 << 10).turn, slice / 4) << slice;
  for (std::uint64_t slice = 12; slice < 20; slice++)
    EXPECT_EQ(ring.take(slice, 16 << 10, 32 << 10).turn, 3 + (slice - 12) / 2) << slice;
}

/// Whoever waits for `free_after` before it writes never meets a slice that somebody may still read.
TEST(StageRing, NoTwoSlicesThatMayBeInUseOverlap) {
  struct Use {
    std::uint64_t slice, begin, end;
  };
  std::mt19937 random(7);
  for (const std::uint64_t size : {64u, 192u, 1024u, 65536u}) {
    StageRing ring(size);
    std::vector<Use> in_use;
    for (std::uint64_t slice = 0; slice < 5000; slice += 1 + random() % 3) {  // numbers may leave gaps
      const std::uint64_t bytes = 1 + random() % (random() % 4 == 0 ? size : std::max<std::uint64_t>(size / 8, 1));
      const std::uint64_t within = random() % 2 == 0 ? size : bytes + random() % size;
      const auto place = ring.take(slice, bytes, within);
      ASSERT_LE(place.offset + bytes, std::min(size, (within + 63) / 64 * 64));
      ASSERT_LE(place.free_after, slice);
      std::erase_if(in_use, [&](const Use& u) { return u.slice < place.free_after; });
      for (const Use& u : in_use)
        ASSERT_TRUE(u.end <= place.offset || place.offset + bytes <= u.begin) << slice << " over " << u.slice;
      in_use.push_back({slice, place.offset, place.offset + bytes});
    }
  }
}

}  // namespace
}  // namespace unisono::engine
