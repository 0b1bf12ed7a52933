/// Whether a program's rounds are shorter with something is found out by timing them.

#include "group/round_trial.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace unisono::group {
namespace {

using std::chrono::nanoseconds;

/// A clock that counts how often it is asked.
class CountingClock final : public Clock {
 public:
  TimePoint now() const noexcept override {
    asked++;
    return at;
  }
  TimePoint at{};
  mutable int asked = 0;
};

/// A program whose rounds take so long without it and with it.
class Program {
 public:
  /// So many rounds; in how many of them it was done.
  int play(int rounds, nanoseconds without, nanoseconds with) {
    int done = 0;
    for (int i = 0; i < rounds; i++) {
      const bool chosen = trial.choose(clock);
      done += chosen;
      clock.at += (chosen ? with : without) + noise();
    }
    return done;
  }
  RoundTrial trial;
  CountingClock clock;
  int disturbed = 0;  ///< one round of so many takes ten times as long; 0: none

 private:
  nanoseconds noise() { return disturbed > 0 && random_() % disturbed == 0 ? nanoseconds(100'000) : nanoseconds(0); }
  std::mt19937 random_{3};
};

constexpr int kOfOneTrial = RoundTrial::kRounds * RoundTrial::kTurns;

TEST(RoundTrial, ItIsDoneWhereRoundsAreShorterWithIt) {
  Program program;
  EXPECT_EQ(program.play(RoundTrial::kFirst, nanoseconds(10'000), nanoseconds(9'000)), 0);
  program.play(2 * kOfOneTrial, nanoseconds(10'000), nanoseconds(9'000));
  EXPECT_EQ(program.play(1000, nanoseconds(10'000), nanoseconds(9'000)), 1000);
}

TEST(RoundTrial, NotWhereTheyAreLonger) {
  Program program;
  const int done = program.play(100'000, nanoseconds(10'000), nanoseconds(11'000));
  EXPECT_GE(done, kOfOneTrial) << "it is tried now and then";
  EXPECT_LE(done, 1200);
}

TEST(RoundTrial, NorWhereItMakesNearlyNoDifference) {
  Program program;
  EXPECT_LE(program.play(100'000, nanoseconds(10'000), nanoseconds(9'900)), 1200);
}

TEST(RoundTrial, RoundsThatAreDisturbedDoNotDecide) {
  Program worse, better;
  worse.disturbed = better.disturbed = 100;
  EXPECT_LE(worse.play(100'000, nanoseconds(10'000), nanoseconds(11'000)), 3000);
  EXPECT_GE(better.play(100'000, nanoseconds(10'000), nanoseconds(9'000)), 97'000);
}

TEST(RoundTrial, ItFollowsWhenTheProgramChanges) {
  Program program;
  program.play(50'000, nanoseconds(10'000), nanoseconds(9'000));
  program.play(RoundTrial::kLatest + 2 * kOfOneTrial, nanoseconds(10'000), nanoseconds(11'000));
  EXPECT_LE(program.play(RoundTrial::kSoonest, nanoseconds(10'000), nanoseconds(11'000)), kOfOneTrial);
  program.play(RoundTrial::kLatest + 2 * kOfOneTrial, nanoseconds(10'000), nanoseconds(9'000));
  EXPECT_GE(program.play(RoundTrial::kSoonest, nanoseconds(10'000), nanoseconds(9'000)),
            static_cast<int>(RoundTrial::kSoonest) - kOfOneTrial);
}

/// What interrupts a turn, a call by stages for one, takes as long as it takes: that turn begins again.
TEST(RoundTrial, InterruptedTurnsDoNotCount) {
  Program program;
  program.play(RoundTrial::kFirst, nanoseconds(10'000), nanoseconds(9'000));
  for (int i = 0; i < 400; i++) {
    program.play(5 + i % 13, nanoseconds(10'000), nanoseconds(9'000));
    program.clock.at += nanoseconds(1'000'000);
    program.trial.interrupt();
  }
  EXPECT_EQ(program.play(500, nanoseconds(10'000), nanoseconds(9'000)), 500);
}

TEST(RoundTrial, TheClockIsReadInTrialsAlone) {
  Program program;
  program.play(100'000, nanoseconds(10'000), nanoseconds(9'000));
  EXPECT_GE(program.clock.asked, 4 * RoundTrial::kTurns);
  EXPECT_LE(program.clock.asked, 1000);
}

}  // namespace
}  // namespace unisono::group
