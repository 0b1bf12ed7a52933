/// Memory that a program takes over while a peer may still write to the segment's pages: it does
/// not show what the peer writes.

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "own_pages.h"
#include "transport/shm/layout.h"
#include "transport/shm/segment.h"

namespace unisono::transport::shm {
namespace {

using transport::test::is_shared;
using transport::test::make_segment;
using transport::test::Pages;

/// As a peer maps it.
class Peer {
 public:
  explicit Peer(const Segment& segment) : bytes_(segment.bytes()) {
    at_ = static_cast<std::byte*>(
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, segment.fd(), 0));
    EXPECT_NE(at_, MAP_FAILED);
  }
  ~Peer() { ::munmap(at_, bytes_); }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  std::byte* at(std::uint64_t offset) const { return at_ + offset; }

 private:
  std::uint64_t bytes_;
  std::byte* at_;
};

bool all(const std::byte* at, std::uint64_t bytes, int value) {
  for (std::uint64_t i = 0; i < bytes; i++)
    if (static_cast<int>(at[i]) != value) return false;
  return true;
}

TEST(TakenOver, RegisteredMemory) {
  constexpr std::uint64_t kBytes = 5 << 20;
  const auto segment = make_segment();
  const Peer peer(*segment);
  const Pages pages(kBytes + kPage);
  std::byte* const data = pages.at() + 16;
  std::memset(data, 1, kBytes);
  auto memory = segment->register_memory(data, kBytes).value();
  const std::uint64_t offset = segment->find(data, kBytes).offset;
  std::memset(peer.at(offset), 2, kBytes);
  memory->from_segment(offset, kBytes);
  ASSERT_TRUE(all(data, kBytes, 2));
  EXPECT_TRUE(memory->shared());
  EXPECT_TRUE(memory->take_over());
  EXPECT_FALSE(memory->shared());
  EXPECT_EQ(segment->find(data, kBytes).offset, 0);
  EXPECT_FALSE(is_shared(data + kPage));
  std::memset(peer.at(offset), 3, kBytes);
  EXPECT_TRUE(all(data, kBytes, 2));
  std::memset(data, 4, kBytes);
  EXPECT_TRUE(all(peer.at(offset), kBytes, 3));
  EXPECT_TRUE(memory->take_over()) << "a second time";
  // The room is the segment's again when nobody keeps the memory any more, and then it can be
  // registered anew.
  const std::uint64_t with = segment->allocated();
  memory->release();
  memory.reset();
  EXPECT_LT(segment->allocated(), with);
  auto again = segment->register_memory(data, kBytes);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_TRUE(all(data, kBytes, 4));
  (*again)->release();
  EXPECT_TRUE(all(data, kBytes, 4));
}

TEST(TakenOver, Buffers) {
  constexpr std::uint64_t kBytes = 4 << 20;
  const auto segment = make_segment();
  const Peer peer(*segment);
  const std::uint64_t before = segment->allocate_buffer(kBytes).value();
  const std::uint64_t offset = segment->allocate_buffer(kBytes).value();
  const std::uint64_t behind = segment->allocate_buffer(kBytes).value();
  ASSERT_TRUE(segment->hand_out(offset, kBytes).ok());
  std::byte* const data = segment->base() + offset;
  std::memset(peer.at(offset), 1, kBytes);
  EXPECT_TRUE(segment->take_over(offset, kBytes));
  std::memset(peer.at(offset), 2, kBytes);
  EXPECT_TRUE(all(data, kBytes, 1));
  EXPECT_EQ(segment->find(data, kBytes).offset, 0);
  EXPECT_EQ(segment->find(data + kBytes - 1, 1).offset, 0);
  EXPECT_EQ(segment->find(data - 1, 2).offset, 0) << "a part of it is not in the segment";
  EXPECT_EQ(segment->find(data - 1, 1).offset, offset - 1);
  EXPECT_EQ(segment->find(data + kBytes, 1).offset, behind);
  EXPECT_EQ(segment->find(segment->base() + before, kBytes).offset, before);
  ASSERT_TRUE(segment->take_back(offset, kBytes));
  EXPECT_EQ(segment->find(data, kBytes).offset, offset);
  EXPECT_TRUE(is_shared(data));
  EXPECT_TRUE(all(data, kBytes, 2)) << "the segment's pages";
  for (const std::uint64_t at : {before, offset, behind}) segment->release(at, kBytes);
  const std::uint64_t again = segment->allocate_buffer(3 * kBytes).value();
  std::memset(segment->base() + again, 3, 3 * kBytes);
  EXPECT_TRUE(all(peer.at(again), 3 * kBytes, 3));
}

/// What others write beside the operand of the call that has failed is theirs.
TEST(TakenOver, NothingThatIsWrittenMeanwhileIsLost) {
  constexpr std::uint64_t kBytes = 256 * kPage, kWords = kBytes / sizeof(std::uint64_t);
  const auto segment = make_segment();
  const std::uint64_t offset = segment->allocate_buffer(kBytes).value();
  ASSERT_TRUE(segment->hand_out(offset, kBytes).ok());
  auto* words = reinterpret_cast<std::uint64_t*>(segment->base() + offset);
  std::atomic<bool> over{false}, begun{false};
  std::uint64_t rounds = 0;
  std::thread writes([&] {
    while (!over) {
      rounds++;
      for (std::uint64_t i = 0; i < kWords; i += 64)
        std::atomic_ref(words[i]).store(std::atomic_ref(words[i]).load(std::memory_order_relaxed) + 1,
                                        std::memory_order_relaxed);
      begun = true;
    }
  });
  while (!begun) std::this_thread::yield();
  EXPECT_TRUE(segment->take_over(offset, kBytes));
  over = true;
  writes.join();
  for (std::uint64_t i = 0; i < kWords; i += 64) ASSERT_EQ(words[i], rounds) << i;
  EXPECT_TRUE(segment->take_back(offset, kBytes));
}

}  // namespace
}  // namespace unisono::transport::shm
