#include "group/scratch.h"

#include <gtest/gtest.h>

#include <thread>

namespace unisono::group {
namespace {

std::vector<std::byte> piece_of(std::size_t bytes) { return std::vector<std::byte>(bytes); }

TEST(ScratchPool, OneAfterAnotherUseTheSamePiece) {
  ScratchPool pool;
  std::vector<std::byte> piece = pool.take();
  EXPECT_TRUE(piece.empty());
  piece.resize(1000);
  const std::byte* where = piece.data();
  pool.give(std::move(piece));
  piece = pool.take();
  EXPECT_EQ(piece.data(), where);
  EXPECT_TRUE(pool.take().empty()) << "it is in use";
}

TEST(ScratchPool, TheLargestComesFirstAndIsKept) {
  ScratchPool pool;
  for (const std::size_t bytes : {100, 300, 200}) pool.give(piece_of(bytes));
  pool.trim();
  EXPECT_EQ(pool.take().size(), 300u);
  EXPECT_TRUE(pool.take().empty());
}

TEST(ScratchPool, NothingIsNotKept) {
  ScratchPool pool;
  pool.give(piece_of(10));
  pool.give({});
  EXPECT_EQ(pool.take().size(), 10u);
}

/// For ThreadSanitizer.
TEST(ScratchPool, APieceHasOneUser) {
  ScratchPool pool;
  const auto run = [&] {
    for (int i = 0; i < 5000; i++) {
      std::vector<std::byte> piece = pool.take();
      if (piece.empty()) piece.resize(64);
      piece[0] = static_cast<std::byte>(i);
      pool.give(std::move(piece));
      if (i % 100 == 0) pool.trim();
    }
  };
  std::thread other(run);
  run();
  other.join();
}

}  // namespace
}  // namespace unisono::group
