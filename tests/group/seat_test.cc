#include "group/seat.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/host_topology.h"

namespace unisono::group {
namespace {

using Masks = std::vector<std::vector<int>>;

std::vector<int> seats(const Masks& masks) {
  std::vector<int> all;
  for (std::size_t place = 0; place < masks.size(); place++) all.push_back(seat_of(place, masks).value_or(-1));
  return all;
}

TEST(SeatOf, AsManyOnEachProcessorAndNeighboursTogether) {
  EXPECT_EQ(seats(Masks(4, {0, 1})), (std::vector{0, 0, 1, 1}));
  EXPECT_EQ(seats(Masks(8, {2, 5, 7})), (std::vector{2, 2, 2, 5, 5, 5, 7, 7}));
  EXPECT_EQ(seats(Masks(3, {4})), (std::vector{4, 4, 4}));
}

TEST(SeatOf, NobodyHasOneWhereThereAreProcessorsForAllOrSomebodyHasPlacedThem) {
  EXPECT_EQ(seat_of(0, Masks(2, {0, 1})), std::nullopt);
  EXPECT_EQ(seats({{0, 1}, {0, 1}, {0}, {1}}), (std::vector{-1, -1, -1, -1}));
  EXPECT_EQ(seats(Masks(3)), (std::vector{-1, -1, -1})) << "nobody knows where they may run";
  EXPECT_EQ(seat_of(3, Masks(3, {0, 1})), std::nullopt);
}

TEST(MatesOf, AreThoseWithTheSameSeat) {
  const Masks four(4, {0, 1}), seven(7, {2, 5});
  EXPECT_EQ(mates_of(0, four, 7), (engine::Mates{-1, 1, 2, 7}));
  EXPECT_EQ(mates_of(1, four, 7), (engine::Mates{0, -1, 2, 7}));
  EXPECT_EQ(mates_of(2, four, 7), (engine::Mates{-1, 3, 2, 7}));
  EXPECT_EQ(mates_of(2, seven, 7), (engine::Mates{1, 3, 4, 7}));
  EXPECT_EQ(mates_of(4, seven, 7), (engine::Mates{-1, 5, 3, 7}));
  EXPECT_EQ(mates_of(0, Masks(2, {0, 1}), 7), engine::Mates{}) << "no seats";
}

class KeptSeat : public ::testing::Test {
 protected:
  void SetUp() override {
    if (processors_.size() < 2) GTEST_SKIP() << "SKIPPED: needs two processors";
  }
  /// To another processor than the second one.
  void leave() const {
    if (::sched_getcpu() == processors_[1]) move_to_cpu(processors_[0]);
  }
  const std::vector<int> processors_ = usable_cpus();
  Seat seat_;
  ManualClock clock_;
};

TEST_F(KeptSeat, WhoWaitsElsewhereGoesBackOnceInAMillisecond) {
  clock_.advance(std::chrono::seconds(1));
  EXPECT_FALSE(seat_.keep(clock_)) << "it has no seat";
  seat_.take(processors_[1]);
  // Elsewhere: whatever the system does with this thread between two lines, at most one of many questions moves it.
  int moved = 0;
  for (int i = 0; i < 100; i++) {
    leave();
    moved += seat_.keep(clock_) ? 1 : 0;
  }
  EXPECT_EQ(moved, 1);
  clock_.advance(std::chrono::milliseconds(1));
  for (int i = 0; i < 100 && moved == 1; i++) {
    leave();
    moved += seat_.keep(clock_) ? 1 : 0;
  }
  EXPECT_EQ(moved, 2);
  EXPECT_EQ(usable_cpus(), processors_) << "where it may run stays as it was";
}

}  // namespace
}  // namespace unisono::group
