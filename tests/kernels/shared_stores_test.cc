/// Which way stores go, on machines that are made of numbers.

#include "kernels/shared_stores.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace unisono::kernels {
namespace {

using Kind = SharedStores::Kind;

constexpr std::uint64_t kStage = 2 << 20;
constexpr std::size_t kPiece = 32 << 10;

/// Nanoseconds a byte through the caches and around them.
struct Machine {
  double through, around;
};
constexpr Machine kNear{.through = 0.04, .around = 0.03}, kFar{.through = 0.4, .around = 0.03};

/// Of `pieces` pieces, how many went around the caches.
int around_of(SharedStores& stores, int pieces, const Machine& machine, Kind kind = Kind::copy) {
  int count = 0;
  for (int i = 0; i < pieces; i++) {
    const bool around = stores.next(kind);
    stores.note(kind, around, kPiece, (around ? machine.around : machine.through) * static_cast<double>(kPiece));
    count += static_cast<int>(around);
  }
  return count;
}

TEST(SharedStores, StayInCachesThatCoresHaveInCommon) {
  SharedStores stores(kStage);
  EXPECT_LT(around_of(stores, 1000, kNear), 40) << "now and then, to know";
  EXPECT_FALSE(stores.around()) << "as readers are told";
  EXPECT_LT(around_of(stores, 10'000, kNear), 200);
}

TEST(SharedStores, GoAroundThoseThatTheyHaveNot) {
  SharedStores stores(kStage);
  around_of(stores, 200, kFar);
  EXPECT_TRUE(stores.around());
  EXPECT_GT(around_of(stores, 10'000, kFar), 9'500);
  EXPECT_LT(around_of(stores, 100'000, kFar), 100'000) << "the caches are tried again";
}

TEST(SharedStores, FollowWhenTheCoresMove) {
  SharedStores stores(kStage);
  around_of(stores, 10'000, kNear);
  around_of(stores, 200, kFar);
  EXPECT_GT(around_of(stores, 1000, kFar), 900) << "at once: it is seen in all that goes through the caches";
  around_of(stores, 40'000, kNear);
  EXPECT_LT(around_of(stores, 10'000, kNear), 200) << "within a gigabyte";
}

/// The first turn after a while around the caches is slow on any machine: it must not keep the stores from coming back.
TEST(SharedStores, FirstTurnDoesNotCount) {
  SharedStores stores(kStage);
  around_of(stores, 1000, kFar);
  int around = 0, cold = 0;
  for (int i = 0; i < 50'000; i++) {
    const bool way = stores.next(Kind::copy);
    const double through = cold > 0 ? kFar.through : kNear.through;
    cold = std::clamp(way ? cold + 1 : cold - 1, 0, static_cast<int>(kStage / kPiece));
    stores.note(Kind::copy, way, kPiece, (way ? kNear.around : through) * kPiece);
    if (i >= 40'000) around += static_cast<int>(way);
  }
  EXPECT_LT(around, 500);
}

TEST(SharedStores, ForgiveInterruptedPieces) {
  SharedStores stores(kStage);
  int around = 0;
  for (int i = 0; i < 10'000; i++) {
    const bool way = stores.next(Kind::copy);
    stores.note(Kind::copy, way, kPiece, (i % 3 == 0 ? 1000 : 1) * (way ? kNear.around : kNear.through) * kPiece);
    around += static_cast<int>(way);
  }
  EXPECT_LT(around, 300);
}

TEST(SharedStores, WeighBothKinds) {
  // Copies alone would rather go around, but what reductions lose is more.
  SharedStores stores(kStage);
  const Machine copies{.through = 0.14, .around = 0.03}, reductions{.through = 0.05, .around = 0.12};
  int around = 0;
  for (int i = 0; i < 5'000; i++)
    around += around_of(stores, 1, copies, Kind::copy) + around_of(stores, 1, reductions, Kind::reduce);
  EXPECT_LT(around, 500);
}

/// All pieces are timed until it could be decided, not one of five: whoever stores only now and then would not get there.
TEST(SharedStores, LearnFromFewPieces) {
  SharedStores stores(kStage);
  int around = 0;
  for (std::uint64_t i = 0; i < kStage / kPiece + 30; i++)
    stores.store(Kind::copy, kPiece, [&](bool goes_around) { around += static_cast<int>(goes_around); });
  EXPECT_GE(around, 7);
}

/// What is stored is the same either way.
TEST(SharedStores, CopyBytesOfAnyLength) {
  SharedStores stores(kStage);
  alignas(64) static std::byte from[70'000], to[70'000];
  for (std::size_t i = 0; i < sizeof from; i++) from[i] = static_cast<std::byte>(i * 7);
  for (int round = 0; round < 200; round++)
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{4'099}, std::size_t{16'385}, std::size_t{65'537}}) {
      std::fill(std::begin(to), std::end(to), std::byte{0});
      stores.copy(to + round % 64, from + round % 3, bytes);
      ASSERT_TRUE(std::equal(from + round % 3, from + round % 3 + bytes, to + round % 64)) << bytes;
      ASSERT_EQ(to[round % 64 + bytes], std::byte{0});
    }
}

}  // namespace
}  // namespace unisono::kernels
