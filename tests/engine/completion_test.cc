/// What counts as under way.

#include "engine/completion.h"

#include <gtest/gtest.h>

namespace unisono::engine {
namespace {

TEST(Completion, CountsUntilItIsComplete) {
  const auto count = std::make_shared<UnderWay>(0);
  Completion one(count), other(count), none;
  EXPECT_EQ(*count, 2);
  EXPECT_TRUE(one.complete({}).empty());
  EXPECT_EQ(*count, 1);
  EXPECT_TRUE(one.complete({}).empty());  // a second time changes nothing
  EXPECT_TRUE(none.complete({}).empty());
  EXPECT_EQ(*count, 1);
}

TEST(Completion, OneThatNobodyCanCompleteAnyMoreIsNotUnderWay) {
  const auto count = std::make_shared<UnderWay>(0);
  {
    const Completion dropped(count);
  }
  EXPECT_EQ(*count, 0);
  {
    Completion done(count);
    EXPECT_TRUE(done.complete({}).empty());
  }
  EXPECT_EQ(*count, 0);
}

TEST(Completion, CountsFromWhenItIsToCall) {
  const auto count = std::make_shared<UnderWay>(0);
  Completion completion, counted(count);
  int called = 0;
  std::function<void()> call = [&] { called++; }, again = call, late = call, other = call;
  EXPECT_TRUE(completion.on_done(call, count));
  EXPECT_TRUE(completion.on_done(again, count));
  EXPECT_TRUE(counted.on_done(other, count));
  EXPECT_EQ(*count, 2);  // each once
  run(completion.complete({}));
  EXPECT_EQ(*count, 1);
  EXPECT_EQ(called, 2);
  EXPECT_FALSE(completion.on_done(late, count));
  EXPECT_EQ(*count, 1);
  EXPECT_EQ(called, 2);
}

}  // namespace
}  // namespace unisono::engine
