/// What ranks read in the store of one that cannot join.

#include "group/join_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rendezvous/ended_ranks.h"
#include "unisono/error.hpp"

namespace unisono::group {
namespace {

using ::testing::HasSubstr;

class JoinReportTest : public ::testing::Test {
 protected:
  std::shared_ptr<Store> store_ = make_memory_store();
  JoinReport mine_{*store_, "world", 0, 3, "node0", 10}, other_{*store_, "world", 1, 3, "node1", 11};
};

TEST_F(JoinReportTest, NothingIsWrongAtFirst) {
  EXPECT_TRUE(mine_.look().ok());
  EXPECT_TRUE(mine_.look_for_all().ok());
}

TEST_F(JoinReportTest, ARanksOwnErrorIsItsFailureToTheOthers) {
  other_.publish(Status::invalid("no such transport"));
  const Status read = mine_.look();
  EXPECT_EQ(read.code(), Code::rank_failure);
  EXPECT_EQ(read.rank(), 1);
  EXPECT_EQ(read.host(), "node1");
  EXPECT_EQ(read.pid(), 11);
  EXPECT_THAT(read.message(), HasSubstr("no such transport"));
}

TEST_F(JoinReportTest, WhatItSaysOfOthersIsPassedOn) {
  other_.publish(Status::timeout("rank 2 did not come", {2}));
  EXPECT_EQ(mine_.look().code(), Code::timeout);
  EXPECT_EQ(mine_.look().missing(), std::vector<int>{2});
}

TEST_F(JoinReportTest, TheFirstReportCounts) {
  other_.publish(Status::rank_failure("rank 2 was killed", 2, "node2", 12));
  mine_.publish(Status::invalid("something that followed"));
  EXPECT_EQ(mine_.look().rank(), 2);
  EXPECT_EQ(other_.look().rank(), 2);
}

TEST_F(JoinReportTest, GroupsDoNotReadEachOthers) {
  JoinReport elsewhere(*store_, "another", 1, 3, "node1", 11);
  elsewhere.publish(Status::invalid("x"));
  EXPECT_TRUE(mine_.look().ok());
}

TEST_F(JoinReportTest, TheLaunchersWordCountsUntilAllHaveMet) {
  store_->set(rendezvous::kEndedKey,
              rendezvous::encode(rendezvous::EndedRank{2, 3, 12, "node2", "exited with status 0"}));
  EXPECT_TRUE(mine_.look().ok());
  EXPECT_EQ(mine_.look_for_all().rank(), 2);
  JoinReport of_some(*store_, "world", 0, 2, "node0", 10);
  EXPECT_TRUE(of_some.look_for_all().ok()) << "a world of two of the launcher's three ranks";
}

TEST_F(JoinReportTest, WhoeverFailedNeedNotCome) {
  EXPECT_FALSE(mine_.all_came());
  store_->set("world/rank/2", {});
  EXPECT_FALSE(mine_.all_came());
  other_.publish(Status::invalid("x"));
  EXPECT_TRUE(mine_.all_came());
}

TEST_F(JoinReportTest, RanksThatNameDifferentSizesAreToldApart) {
  EXPECT_TRUE(mine_.agree_on_size().ok());
  EXPECT_TRUE(other_.agree_on_size().ok());
  JoinReport wrong(*store_, "world", 2, 7, "node2", 12);
  const Status s = wrong.agree_on_size();
  EXPECT_EQ(s.code(), Code::invalid_argument);
  EXPECT_THAT(s.message(), HasSubstr("with 7 ranks, and rank 0 (host node0, pid 10) with 3"));
}

TEST_F(JoinReportTest, AReportThatCannotBeReadIsAnError) {
  store_->set("world/failed", std::as_bytes(std::span("?", 1)));
  EXPECT_FALSE(mine_.look().ok());
}

}  // namespace
}  // namespace unisono::group
