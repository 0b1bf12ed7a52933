/// Who has which rank: taken once at a time, by processes of one place.

#include "rendezvous/claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/helpers.h"
#include "rendezvous/open_store.h"

namespace unisono::rendezvous {
namespace {

using ::testing::HasSubstr;

Config rank_of(int rank, const std::string& job = "job") {
  Config c;
  c.rank = rank;
  c.size = 4;
  c.job = job;
  c.init_method = "tcp://192.0.2.1:1";
  return c;
}

TEST(ClaimRank, ARankIsTakenOnce) {
  const auto store = make_memory_store();
  const HostIdentity me = *this_host();
  const auto mine = claim_rank(store, rank_of(2), me);
  ASSERT_TRUE(mine.ok()) << mine.status().message();
  EXPECT_TRUE(claim_rank(store, rank_of(1), me).ok());
  EXPECT_TRUE(claim_rank(store, rank_of(2, "other job"), me).ok());

  HostIdentity other = me;
  other.pid = ::getppid();
  HostIdentity far = me;
  far.boot_id = "another";
  ASSERT_TRUE(claim_rank(store, rank_of(0), far).ok());
  EXPECT_THAT(claim_rank(store, rank_of(0), me).status().message(), HasSubstr("already taken by pid"));

  // this process's claim, as another one of this host sees it
  const auto taken = claim_rank(store, rank_of(2), other);
  EXPECT_EQ(taken.status().code(), Code::invalid_argument);
  EXPECT_THAT(taken.status().message(),
              HasSubstr("rank 2 of this job was already taken by pid " + std::to_string(me.pid)));
  EXPECT_THAT(taken.status().message(), HasSubstr(me.host));
}

TEST(ClaimRank, OneProcessTakesItAgainApartFromTheFormerWorld) {
  const auto store = make_memory_store();
  const auto first = claim_rank(store, rank_of(0), *this_host());
  ASSERT_TRUE(first.ok());
  (*first)->set("key", test::bytes_of("first"));
  const auto second = claim_rank(store, rank_of(0), *this_host());
  ASSERT_TRUE(second.ok()) << second.status().message();
  const std::string key = "key";
  EXPECT_FALSE((*second)->check(std::span(&key, 1)));
  const auto late = claim_rank(store, rank_of(1), *this_host());  // rank 1's first time is of the former world
  ASSERT_TRUE(late.ok());
  EXPECT_TRUE((*late)->check(std::span(&key, 1)));
  EXPECT_FALSE((*late)->check(std::vector<std::string>{"other"}));
}

TEST(ClaimRank, AProcessThatEndedHasNoRank) {
  const auto store = make_memory_store();
  HostIdentity dead = *this_host();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_GT(child, 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  dead.pid = child;
  {
    ASSERT_TRUE(claim_rank(store, rank_of(0), dead).ok());
  }
  EXPECT_TRUE(claim_rank(store, rank_of(0), *this_host()).ok());

  // rank 1 joins again with rank 0 alone
  ASSERT_TRUE(claim_rank(store, rank_of(1), dead).ok());
  EXPECT_TRUE(claim_rank(store, rank_of(1), *this_host()).ok());
  Config third = rank_of(1);
  third.init_timeout = std::chrono::milliseconds(20);
  const auto early = claim_rank(store, third, *this_host());
  EXPECT_EQ(early.status().code(), Code::timeout);
  EXPECT_THAT(early.status().missing(), ::testing::ElementsAre(0));
}

TEST(ClaimRank, AFileMayBeOfAFormerJob) {
  const auto store = make_memory_store();
  Config c = rank_of(0);
  c.init_method = "file:///shared";
  {
    ASSERT_TRUE(claim_rank(store, c, *this_host()).ok());
  }
  EXPECT_THAT(claim_rank(store, c, *this_host()).status().message(), HasSubstr("already taken"));
}

TEST(ClaimRank, AnotherPidNamespaceIsRefusedByName) {
  const HostIdentity me = *this_host();
  HostIdentity apart = me;
  apart.pid_namespace = 4026539999;
  struct Case {
    const char* what;
    Config config;
    bool refused;
  };
  Config local = rank_of(1), loopback = rank_of(1), named = rank_of(1), launched = rank_of(1);
  local.local_size = local.size;
  loopback.init_method = "tcp://127.0.0.1:1";
  named.init_method = launched.init_method = "unix:@name";
  launched.launcher = "unisono";  // a name that no other job has
  for (const Case& c :
       {Case{"over the network", rank_of(1), false}, Case{"all are local", local, true},
        Case{"loopback", loopback, true}, Case{"a socket's name", named, true}, Case{"unisono run", launched, false}}) {
    const auto store = make_memory_store();
    Config first = c.config;
    first.rank = 0;
    const auto held = claim_rank(store, first, me);
    ASSERT_TRUE(held.ok()) << c.what;
    const auto second = claim_rank(store, c.config, apart);
    ASSERT_EQ(second.ok(), !c.refused) << c.what;
    if (!c.refused) continue;
    EXPECT_EQ(second.status().code(), Code::invalid_argument);
    for (const std::string& part : {std::to_string(me.pid_namespace), std::string("4026539999"), me.host})
      EXPECT_THAT(second.status().message(), HasSubstr(part)) << c.what;
  }
}

TEST(ClaimRank, ASecondRankZeroIsToldWhoWasFirst) {
  const Config c = [] {
    Config made = rank_of(0);
    made.size = made.local_size = 2;
    made.init_method = "unix:@" + test::unique_name("claim");
    return made;
  }();
  const auto first = value_or_throw(open_store(c, Logger(LogLevel::off, "")));
  const auto held = claim_rank(first, c, *this_host());
  ASSERT_TRUE(held.ok()) << held.status().message();
  const auto second = open_store(c, Logger(LogLevel::off, ""));  // the name is taken, by the same job: so it joins
  ASSERT_TRUE(second.ok()) << second.status().message();
  HostIdentity other = *this_host();
  other.pid = ::getppid();
  EXPECT_THAT(claim_rank(*second, c, other).status().message(), HasSubstr("already taken"));
}

}  // namespace
}  // namespace unisono::rendezvous
