/// Waiting for a key that may never come, in stores that notice the end of a process and in others.

#include "rendezvous/watchful_get.h"

#include <gtest/gtest.h>

#include <thread>

#include "rendezvous/helpers.h"
#include "rendezvous/when_gone.h"
#include "unisono/error.hpp"

namespace unisono::rendezvous {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::text_of;

/// Counts what it is asked, as another library's store would be.
class ForeignStore final : public test::PlainStore {
 public:
  Bytes get(std::string_view key, Duration timeout) override {
    waits++;
    return PlainStore::get(key, timeout);
  }
  std::string describe() const override { return "foreign store"; }
  int waits = 0;
};

class WatchfulGet : public ::testing::TestWithParam<bool> {
 protected:
  std::shared_ptr<Store> store_ = GetParam() ? make_memory_store() : std::make_shared<ForeignStore>();
};

TEST_P(WatchfulGet, ReturnsWhatComes) {
  EXPECT_EQ(keeps_last_words(*store_), GetParam());
  int asked = 0;
  const Bytes value = watchful_get(*store_, "key", 60s, 2, [&] {
    if (++asked == 2) store_->set("key", bytes_of("v"));
  });
  EXPECT_EQ(text_of(value), "v");
  EXPECT_GE(asked, 2);
}

TEST_P(WatchfulGet, EndsWithTheNews) {
  EXPECT_THROW(watchful_get(*store_, "key", 60s, 2, [] { throw Aborted("no use"); }), Aborted);
}

TEST_P(WatchfulGet, WhatIsThereCountsMoreThanTheNews) {
  const Bytes value = watchful_get(*store_, "key", 60s, 2, [&] {
    store_->set("key", bytes_of("its last deed"));
    throw Aborted("gone");
  });
  EXPECT_EQ(text_of(value), "its last deed");
}

TEST_P(WatchfulGet, TheTimeOutIsTheCallers) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(watchful_get(*store_, "key", 150ms, 2, [] {}), Timeout);
  EXPECT_GE(std::chrono::steady_clock::now() - start, 150ms);
}

INSTANTIATE_TEST_SUITE_P(Stores, WatchfulGet, ::testing::Values(true, false));

TEST(WatchfulGetOfForeignStores, AsksThemToWaitForNothingThatMayNotCome) {
  ForeignStore store;
  int asked = 0;
  watchful_get(store, "key", 60s, 2, [&] {
    if (++asked == 2) store.set("key", bytes_of("v"));
  });
  EXPECT_EQ(store.waits, 1);
}

}  // namespace
}  // namespace unisono::rendezvous
