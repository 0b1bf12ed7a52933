/// What every store does, whatever is behind it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>

#include "rendezvous/helpers.h"
#include "rendezvous/store_client.h"
#include "rendezvous/store_server.h"
#include "unisono/error.hpp"

namespace unisono::rendezvous {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::text_of;
using ::testing::HasSubstr;

/// Where a kind of store lives; join() gives another participant's view of the same one.
class Place {
 public:
  virtual ~Place() = default;
  virtual std::shared_ptr<Store> join() = 0;
};

class MemoryPlace final : public Place {
 public:
  std::shared_ptr<Store> join() override { return store_; }

 private:
  std::shared_ptr<Store> store_ = make_memory_store();
};

class PrefixPlace final : public Place {
 public:
  std::shared_ptr<Store> join() override { return make_prefix_store("pre", store_); }

 private:
  std::shared_ptr<Store> store_ = make_memory_store();
};

class FilePlace final : public Place {
 public:
  std::shared_ptr<Store> join() override { return make_file_store(directory_.file("store")); }

 private:
  test::TemporaryDirectory directory_;
};

class ServerPlace final : public Place {
 public:
  explicit ServerPlace(const Endpoint& at) {
    StoreServerOptions options;
    options.handshake = test::store_handshake();
    server_ = value_or_throw(StoreServer::start(at, std::move(options)));
  }
  std::shared_ptr<Store> join() override {
    StoreClientOptions options;
    options.handshake = test::store_handshake();
    options.connect_timeout = 20s;
    return value_or_throw(connect_store(server_->endpoint(), std::move(options)));
  }

 private:
  std::unique_ptr<StoreServer> server_;
};

struct PlaceKind {
  const char* name;
  std::function<std::unique_ptr<Place>()> make;
};

class StoreContract : public ::testing::TestWithParam<PlaceKind> {
 protected:
  std::unique_ptr<Place> place_ = GetParam().make();
  std::shared_ptr<Store> a_ = place_->join(), b_ = place_->join();
};

TEST_P(StoreContract, SetIsSeenByOthersAndReplaced) {
  a_->set("k", bytes_of("one"));
  EXPECT_EQ(text_of(b_->get("k", 5s)), "one");
  b_->set("k", bytes_of("two"));
  EXPECT_EQ(text_of(a_->get("k", 5s)), "two");
}

TEST_P(StoreContract, ValuesMayBeEmptyAndBinary) {
  a_->set("empty", {});
  EXPECT_TRUE(b_->get("empty", 5s).empty());
  Bytes all(256);
  for (std::size_t i = 0; i < all.size(); i++) all[i] = static_cast<std::byte>(i);
  const std::string key("k\0\n\xff", 4);
  a_->set(key, all);
  EXPECT_EQ(b_->get(key, 5s), all);
}

TEST_P(StoreContract, GetWaitsForSet) {
  std::atomic<bool> asked{false};
  std::thread waiter([&] {
    asked = true;
    EXPECT_EQ(text_of(b_->get("later", 20s)), "here");
  });
  while (!asked) std::this_thread::yield();
  a_->set("later", bytes_of("here"));
  waiter.join();
}

TEST_P(StoreContract, WaitWaitsForAllKeysInAnyOrder) {
  std::thread waiter([&] {
    const std::vector<std::string> keys{"x", "y", "z"};
    b_->wait(keys, 20s);
    EXPECT_TRUE(b_->check(keys));
  });
  for (const char* key : {"z", "x", "y"}) a_->set(key, bytes_of("1"));
  waiter.join();
}

/// A child that asked over its parent's connection, or wrote to its copy of the values, would get wrong answers or spoil the parent's.
TEST_P(StoreContract, AForkedChildMayNotUseItsParentsStore) {
  a_->set("k", bytes_of("parent's"));
  const pid_t child = ::fork();
  if (child == 0) {
    int refused = 0;
    const std::vector<std::string> keys{"k"};
    const std::vector<std::function<void()>> calls{[&] { a_->set("k", bytes_of("child's")); },
                                                   [&] { a_->get("k", 5s); },
                                                   [&] { a_->add("n", 1); },
                                                   [&] { a_->compare_set("k", {}, {}); },
                                                   [&] { a_->check(keys); },
                                                   [&] { a_->wait(keys, 5s); },
                                                   [&] { a_->erase("k"); }};
    for (const auto& call : calls) try {
        call();
      } catch (const InvalidArgument& e) {
        refused += std::string(e.what()).find("forked child") != std::string::npos;
      }
    a_.reset();  // neither ends anything of the parent's
    b_.reset();
    if (std::string_view(GetParam().name) != "file") place_.reset();  // whose directory is on the disk
    ::_exit(refused == static_cast<int>(calls.size()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(text_of(a_->get("k", 5s)), "parent's");
  EXPECT_EQ(text_of(b_->get("k", 5s)), "parent's");
}

TEST_P(StoreContract, TimeoutsNameTheMissingKeysAndKeepTheirTime) {
  a_->set("there", bytes_of("1"));
  const std::vector<std::string> keys{"there", "gone1", "gone2"};
  const auto start = std::chrono::steady_clock::now();
  try {
    b_->wait(keys, 100ms);
    FAIL() << "no timeout";
  } catch (const Timeout& e) {
    EXPECT_THAT(e.what(), HasSubstr("gone1\""));
    EXPECT_THAT(e.what(), HasSubstr("gone2\""));
    EXPECT_THAT(e.what(), ::testing::Not(HasSubstr("there\"")));
    EXPECT_THAT(e.what(), HasSubstr("store"));
  }
  const auto took = std::chrono::steady_clock::now() - start;
  EXPECT_GE(took, 100ms);
  EXPECT_LT(took, 5s);
  EXPECT_THROW(b_->get("gone1", Duration{0}), Timeout);
  EXPECT_EQ(text_of(b_->get("there", Duration{0})), "1");  // and the store goes on working
}

TEST_P(StoreContract, AddCounts) {
  EXPECT_EQ(a_->add("n", 5), 5);
  EXPECT_EQ(b_->add("n", -7), -2);
  EXPECT_EQ(text_of(a_->get("n", 5s)), "-2");
  a_->set("m", bytes_of("40"));
  EXPECT_EQ(b_->add("m", 2), 42);
  a_->set("word", bytes_of("forty"));
  EXPECT_THROW(b_->add("word", 1), InvalidArgument);
  EXPECT_EQ(a_->add("big", INT64_MAX), INT64_MAX);
  EXPECT_THROW(b_->add("big", 1), InvalidArgument);
}

TEST_P(StoreContract, CompareSetSetsOnlyWhatMatches) {
  EXPECT_EQ(text_of(a_->compare_set("c", {}, bytes_of("one"))), "one");
  EXPECT_EQ(text_of(b_->compare_set("c", {}, bytes_of("two"))), "one");
  EXPECT_EQ(text_of(b_->compare_set("c", bytes_of("one"), bytes_of("two"))), "two");
  EXPECT_EQ(text_of(a_->compare_set("absent", bytes_of("something"), bytes_of("x"))), "");
  const std::vector<std::string> absent{"absent"};
  EXPECT_FALSE(a_->check(absent));
}

TEST_P(StoreContract, EraseRemoves) {
  EXPECT_FALSE(a_->erase("e"));
  a_->set("e", bytes_of("1"));
  EXPECT_TRUE(b_->erase("e"));
  const std::vector<std::string> keys{"e"};
  EXPECT_FALSE(a_->check(keys));
  EXPECT_FALSE(a_->erase("e"));
}

TEST_P(StoreContract, LimitsAreErrorsThatSayTheNumber) {
  EXPECT_THROW(a_->set("", bytes_of("v")), InvalidArgument);
  EXPECT_THROW(a_->set(std::string(2000, 'k'), bytes_of("v")), InvalidArgument);
  const Bytes largest(std::size_t{8} << 20, std::byte{1});
  a_->set("large", largest);
  EXPECT_EQ(b_->get("large", 20s), largest);
  Bytes too_large = largest;
  too_large.push_back(std::byte{1});
  try {
    a_->set("large", too_large);
    FAIL() << "accepted";
  } catch (const InvalidArgument& e) {
    EXPECT_THAT(e.what(), HasSubstr("8388609"));
  }
  EXPECT_EQ(b_->get("large", 20s), largest);
}

TEST_P(StoreContract, ManyThreadsCountRight) {
  constexpr int kThreads = 8, kRounds = 50;
  std::vector<std::thread> threads;
  std::atomic<int> won{0};
  for (int t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      const auto store = t % 2 ? a_ : b_;
      for (int i = 0; i < kRounds; i++) {
        store->add("sum", 1);
        const std::string mine = std::to_string(t);
        if (text_of(store->compare_set("race/" + std::to_string(i), {}, bytes_of(mine))) == mine) won++;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(a_->add("sum", 0), kThreads * kRounds);
  EXPECT_EQ(won, kRounds);
}

TEST_P(StoreContract, AWaitingThreadDoesNotBlockAnotherOfTheSameStore) {
  std::thread waiter([&] { EXPECT_EQ(text_of(a_->get("from-myself", 20s)), "yes"); });
  a_->set("from-myself", bytes_of("yes"));
  waiter.join();
}

TEST_P(StoreContract, AWaitingThreadHearsOfWhatAnotherOfTheSameStoreDoes) {
  // Long in its wait, or just beginning it: whichever way the two meet.
  for (int i = 0; i < 20; i++) {
    const std::string key = "later-" + std::to_string(i);
    std::atomic<bool> waits{false};
    std::thread waiter([&] {
      waits = true;
      EXPECT_EQ(text_of(a_->get(key, 20s)), "yes");
    });
    while (!waits) std::this_thread::yield();
    for (int j = 0; j < i * 20; j++) std::this_thread::yield();
    a_->set(key, bytes_of("yes"));
    waiter.join();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Stores, StoreContract,
    ::testing::Values(PlaceKind{"memory", [] { return std::make_unique<MemoryPlace>(); }},
                      PlaceKind{"prefix", [] { return std::make_unique<PrefixPlace>(); }},
                      PlaceKind{"file", [] { return std::make_unique<FilePlace>(); }},
                      PlaceKind{"tcp", [] { return std::make_unique<ServerPlace>(Endpoint{"127.0.0.1", 0, ""}); }},
                      PlaceKind{"unix",
                                [] {
                                  return std::make_unique<ServerPlace>(Endpoint{"", 0, test::unique_name("contract")});
                                }}),
    [](const auto& kind) { return std::string(kind.param.name); });

TEST(PrefixStore, KeepsKeysApart) {
  const auto inner = make_memory_store();
  const auto a = make_prefix_store("a", inner), b = make_prefix_store("b", inner);
  a->set("k", bytes_of("from a"));
  b->set("k", bytes_of("from b"));
  EXPECT_EQ(text_of(a->get("k", Duration{0})), "from a");
  EXPECT_EQ(text_of(inner->get("a/k", Duration{0})), "from a");
}

}  // namespace
}  // namespace unisono::rendezvous
