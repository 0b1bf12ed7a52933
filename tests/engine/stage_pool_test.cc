#include "engine/stage_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <thread>
#include <vector>

namespace unisono::engine {
namespace {

/// Counts what is allocated; `full`: refuses.
class Memory final : public transport::SharedSegment {
 public:
  std::byte* base() noexcept override { return bytes_.data(); }
  std::uint64_t bytes() const noexcept override { return bytes_.size(); }
  Result<std::uint64_t> allocate(std::uint64_t bytes) override {
    if (full) return Status::system("full", ENOMEM);
    const std::uint64_t offset = next_;
    next_ += bytes;
    live[offset] = bytes;
    return offset;
  }
  Result<std::uint64_t> allocate_buffer(std::uint64_t bytes) override { return allocate(bytes); }
  Status hand_out(std::uint64_t, std::uint64_t) override { return Status::invalid("stages are the library's"); }
  bool take_over(std::uint64_t, std::uint64_t) noexcept override { return false; }
  bool take_back(std::uint64_t, std::uint64_t) noexcept override { return false; }
  void release(std::uint64_t offset, std::uint64_t bytes) noexcept override {
    EXPECT_EQ(live[offset], bytes);
    live.erase(offset);
  }
  Result<std::shared_ptr<transport::RegisteredMemory>> register_memory(std::byte*, std::uint64_t,
                                                                       transport::Freed) override {
    return Status::invalid("stages are never registered");
  }
  void waits_on(int) noexcept override {}
  transport::Place find(const void*, std::uint64_t) const noexcept override { return {}; }
  std::uint64_t allocated() const noexcept override {
    std::uint64_t sum = 0;
    for (const auto& [offset, bytes] : live) sum += bytes;
    return sum;
  }
  std::map<std::uint64_t, std::uint64_t> live;
  bool full = false;

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1 << 20);
  std::uint64_t next_ = 4096;
};

class Holder final : public StageHolder {
 public:
  bool read_by_all(const Stage& stage) const noexcept override { return done >= stage.slices; }
  bool begun_by_all(const Stage& stage) const noexcept override { return begun >= stage.sequence; }
  std::atomic<std::uint64_t> done{0}, begun{0};
};

class StagePoolTest : public testing::Test {
 protected:
  StagePoolTest() {
    for (int i = 0; i < 3; i++) pool.join();
  }
  std::shared_ptr<Stage> lend(Holder& holder, std::uint64_t sequence, bool patient = true, std::uint64_t bytes = 1000,
                              const std::shared_ptr<Stage>& own = nullptr) {
    auto stage = pool.lend(holder, own, bytes, sequence, patient);
    EXPECT_TRUE(stage) << stage.status().message();
    return stage ? *stage : nullptr;
  }
  Memory memory;
  StagePool pool{memory, 1000};
  Holder a, b, c;
};

TEST_F(StagePoolTest, WhatEverybodyHasReadServesTheNextGroup) {
  const auto first = lend(a, 1);
  first->leave(&a, 4);
  a.done = 4;
  const auto second = lend(b, 1);
  EXPECT_EQ(second, first);
  EXPECT_EQ(memory.allocated(), 1000u);
  EXPECT_FALSE(first->enter(&a, 2)) << "it is another's now";
}

TEST_F(StagePoolTest, ItsHolderGoesOnWithoutAsking) {
  const auto stage = lend(a, 1);
  EXPECT_FALSE(stage->enter(&a, 2)) << "it is in use";
  stage->leave(&a, 4);
  EXPECT_TRUE(stage->enter(&a, 2)) << "though peers still read: the ring of places knows";
  stage->leave(&a, 8);
  EXPECT_EQ(lend(a, 3, true, 1000, stage), stage);
}

TEST_F(StagePoolTest, GroupsThatRunAtOnceHaveOneEach) {
  const auto one = lend(a, 1), two = lend(b, 1), three = lend(c, 1);
  EXPECT_NE(one, two);
  EXPECT_NE(two, three);
  EXPECT_NE(one->offset, two->offset);
  EXPECT_EQ(memory.allocated(), 3000u);
}

TEST_F(StagePoolTest, WhereAllHaveBegunTheEndIsAwaitedForAWhile) {
  const auto stage = lend(a, 1);
  stage->leave(&a, 4);
  a.begun = 1;
  EXPECT_EQ(lend(b, 1), nullptr);
  EXPECT_EQ(memory.allocated(), 1000u);
  a.done = 4;
  EXPECT_EQ(lend(b, 1), stage);
}

TEST_F(StagePoolTest, ALongWaitEndsWithAStageOfItsOwn) {
  const auto stage = lend(a, 1);
  stage->leave(&a, 4);
  a.begun = 1;
  EXPECT_EQ(lend(b, 1), nullptr);
  const auto own = lend(b, 1, false);
  ASSERT_NE(own, nullptr);
  EXPECT_NE(own, stage);
  EXPECT_TRUE(stage->enter(&a, 2)) << "it was left where it was";
}

TEST_F(StagePoolTest, NobodyWaitsForAPeerThatHasNotBegun) {
  const auto stage = lend(a, 1);
  stage->leave(&a, 4);  // a.begun is 0: that peer may wait for b
  const auto own = lend(b, 1);
  ASSERT_NE(own, nullptr);
  EXPECT_NE(own, stage);
}

TEST_F(StagePoolTest, ALargerOneTakesThePlaceOfOneThatIsTooSmall) {
  const auto small = lend(a, 1);
  small->leave(&a, 4);
  a.done = 4;
  const auto large = lend(b, 1, true, 5000);
  EXPECT_EQ(large->bytes, 5000u);
  EXPECT_EQ(memory.allocated(), 5000u);
  EXPECT_FALSE(small->enter(&a, 2));
  large->leave(&b, 1);
  b.done = 1;
  EXPECT_EQ(lend(a, 2, true, 1000, small), large) << "and serves the other group, too";
}

TEST_F(StagePoolTest, ASmallOneIsLeftAloneWhereALargeOneIsFree) {
  const auto small = lend(a, 1), large = lend(b, 1, true, 5000);
  small->leave(&a, 1);
  large->leave(&b, 1);
  a.done = b.done = 1;
  EXPECT_EQ(lend(c, 1, true, 5000), large);
  EXPECT_TRUE(small->enter(&a, 2));
}

TEST_F(StagePoolTest, AGroupThatEndsGivesBackWhatOthersDoNotNeed) {
  const auto one = lend(a, 1), two = lend(b, 1);
  one->leave(&a, 1);
  two->leave(&b, 1);
  EXPECT_FALSE(pool.leave(a, one)) << "peers still read";
  EXPECT_TRUE(one->enter(&a, 2)) << "so nothing has changed";
  one->leave(&a, 2);
  a.done = 2, b.done = 1;
  EXPECT_TRUE(pool.leave(a, one));
  EXPECT_EQ(memory.allocated(), 1000u);
  EXPECT_TRUE(pool.leave(b, two));
  EXPECT_EQ(memory.allocated(), 1000u) << "the last one is kept for the next group";
  EXPECT_TRUE(pool.leave(c, nullptr));
  EXPECT_EQ(memory.allocated(), 0u);
}

TEST_F(StagePoolTest, WhatAFailedOperationLeftIsReadUntilAllHaveGivenUp) {
  const auto stage = lend(a, 1);
  stage->leave(&a, Stage::kNever);
  a.begun = 1, a.done = 100;
  EXPECT_EQ(lend(b, 1), nullptr);
  EXPECT_FALSE(pool.leave(a, stage));
  a.done = Stage::kNever;  // as read_by_all() is to say then
  EXPECT_EQ(lend(b, 1), stage);
  EXPECT_TRUE(pool.leave(a, stage)) << "it is another's now";
}

TEST_F(StagePoolTest, WhatIsAbandonedIsNotUsedAgain) {
  const auto stage = lend(a, 1);
  stage->leave(&a, 1);
  pool.abandon(a, stage);
  EXPECT_NE(lend(b, 1), stage);
  EXPECT_EQ(memory.live.count(stage->offset), 1u);
}

TEST_F(StagePoolTest, AFullMachineIsAnErrorThatSaysWhatFor) {
  memory.full = true;
  const auto stage = pool.lend(a, nullptr, 1000, 1, true);
  ASSERT_FALSE(stage);
  EXPECT_NE(stage.status().message().find("a stage of"), std::string::npos) << stage.status().message();
}

/// For ThreadSanitizer: groups that take and leave in three threads never have one stage at the same time.
TEST_F(StagePoolTest, OneStageHasOneUser) {
  std::map<std::uint64_t, int> users;  // not atomic on purpose: by offset
  for (std::uint64_t i = 0; i < 3; i++) users[4096 + i * 1000] = 0;
  const auto run = [&](Holder& me) {
    std::shared_ptr<Stage> own;
    for (std::uint64_t sequence = 1; sequence <= 20000; sequence++) {
      if (own == nullptr || !own->enter(&me, sequence)) {
        std::shared_ptr<Stage> lent;
        while (lent == nullptr) lent = pool.lend(me, own, 1000, sequence, true).value();
        own = std::move(lent);
      }
      int& mine = users.at(own->offset);
      ASSERT_EQ(mine++, 0);
      mine--;
      me.begun = sequence;
      own->leave(&me, sequence);
      me.done = sequence;
    }
    EXPECT_TRUE(pool.leave(me, own));
  };
  std::thread one([&] { run(a); }), two([&] { run(b); });
  run(c);
  one.join();
  two.join();
  EXPECT_EQ(memory.allocated(), 0u);
}

}  // namespace
}  // namespace unisono::engine
