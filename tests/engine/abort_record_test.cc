#include "engine/abort_record.h"

#include <gtest/gtest.h>

namespace unisono::engine {
namespace {

TEST(AbortRecord, KeepsTheFirstReason) {
  AbortRecord record;
  record.group = 0xfedcba9876543210;
  record.status = Status::timeout("rank 3 is late", {3, 5});
  auto back = AbortRecord::decode(record.encode());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->group, record.group);
  EXPECT_FALSE(back->dead);
  EXPECT_EQ(back->status.code(), Code::timeout);
  EXPECT_EQ(back->status.missing(), (std::vector<int>{3, 5}));
  EXPECT_EQ(back->status.message(), "rank 3 is late");
}

TEST(AbortRecord, NamesTheDead) {
  AbortRecord record;
  record.dead = PeerId{1, 2};
  record.status = Status::rank_failure("killed", -1, "host", 4711);
  auto back = AbortRecord::decode(record.encode());
  ASSERT_TRUE(back.ok());
  ASSERT_TRUE(back->dead);
  EXPECT_EQ(*back->dead, (PeerId{1, 2}));
  EXPECT_EQ(back->status.host(), "host");
  EXPECT_EQ(back->status.pid(), 4711);
}

TEST(AbortRecord, GarbageIsAnErrorNotACrash) {
  const auto bytes = AbortRecord{1, std::nullopt, Status::aborted("x")}.encode();
  for (std::size_t length = 0; length < bytes.size(); length++)
    EXPECT_FALSE(AbortRecord::decode(std::span(bytes).first(length)).ok());
  for (std::size_t i = 0; i < bytes.size(); i++) {
    auto broken = bytes;
    broken[i] ^= std::byte{0x80};
    (void)AbortRecord::decode(broken);  // any result but a crash: the sanitizers watch
  }
}

}  // namespace
}  // namespace unisono::engine
