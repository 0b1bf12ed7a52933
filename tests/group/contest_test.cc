/// Which of two algorithms is faster, found out by running them: the contest alone, in calls that take as long as the test says.

#include "group/contest.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <random>

namespace unisono {
namespace {

using Side = group::Contest::Side;

/// Plays `calls` rounds in which the sides take `usual` and `rival`; how often the rival ran.
int play(group::Contest& contest, int calls, Duration usual, Duration rival) {
  int rivals = 0;
  for (int i = 0; i < calls; i++) {
    const Side side = contest.choose();
    rivals += side == Side::rival;
    if (contest.timed()) contest.record(side, side == Side::rival ? rival : usual);
  }
  return rivals;
}

TEST(Contest, TheFasterSideRunsNearlyAlways) {
  using std::chrono::microseconds;
  group::Contest slow_rival, fast_rival;
  EXPECT_LE(play(slow_rival, 10'000, microseconds(100), microseconds(300)), 50);
  EXPECT_GE(play(fast_rival, 10'000, microseconds(300), microseconds(100)), 9'950);
}

TEST(Contest, EverySideGetsAChance) {
  using std::chrono::microseconds;
  group::Contest contest;
  const int rivals = play(contest, 200, microseconds(100), microseconds(300));
  EXPECT_GE(rivals, 4);
  EXPECT_LE(rivals, 12);
}

/// Stages are stored to in the way that suits the cores only after a while: given up before, the usual side would lose for ever.
TEST(Contest, TheUsualSideHasTimeToLearn) {
  using std::chrono::microseconds;
  constexpr int kLearns = 70;  // calls
  const auto play_learner = [](group::Contest contest) {
    int usual = 0, rivals = 0;
    for (int i = 0; i < 10'000; i++) {
      const Side side = contest.choose();
      rivals += side == Side::rival;
      usual += side == Side::usual;
      if (contest.timed()) contest.record(side, microseconds(side == Side::rival ? 200 : usual <= kLearns ? 300 : 100));
    }
    return rivals;
  };
  EXPECT_LE(play_learner(group::Contest(64)), 800);
  EXPECT_GE(play_learner(group::Contest()), 5000) << "what the length of trials is for";
}

/// Programs make a hundred calls of a kind, and benchmarks measure them: a long trial among those would be most of what they take.
TEST(Contest, TrialsAreShortAtFirst) {
  using std::chrono::microseconds;
  group::Contest contest(64);
  EXPECT_GE(play(contest, 128, microseconds(300), microseconds(100)), 128 - 12);
  group::Contest slow_rival(64);
  EXPECT_LE(play(slow_rival, 128, microseconds(100), microseconds(300)), 12);
  group::Contest close(64);  // what is nearly as fast costs little to try
  EXPECT_LE(play(close, 128, microseconds(100), microseconds(110)), 24);
}

TEST(Contest, ALongTrialOfTheSlowerSideIsRare) {
  using std::chrono::microseconds;
  group::Contest contest(64);
  EXPECT_GE(play(contest, 20'000, microseconds(300), microseconds(200)), 18'000);
}

TEST(Contest, ItFollowsWhenThingsChange) {
  using std::chrono::microseconds;
  group::Contest contest;
  play(contest, 5000, microseconds(100), microseconds(300));
  // The cores have moved apart: the usual way is slow now. It is noticed by that, long before the next trial would come.
  EXPECT_GE(play(contest, 200, microseconds(600), microseconds(300)), 150);
  EXPECT_LE(play(contest, 5000, microseconds(100), microseconds(300)), 2200);  // and back, at the latest with a trial
}

TEST(Contest, FewRunsAreTimedWhileNothingChanges) {
  using std::chrono::microseconds;
  group::Contest contest;
  play(contest, 5000, microseconds(100), microseconds(300));
  int timed = 0;
  for (int i = 0; i < 1000; i++) {
    const Side side = contest.choose();
    if (!contest.timed()) continue;
    contest.record(side, side == Side::rival ? microseconds(300) : microseconds(100));
    timed++;
  }
  EXPECT_GE(timed, 30);
  EXPECT_LE(timed, 40);
}

/// A rank that is through with its part before the other begins makes one run of the slower side in ten look short, and others are disturbed now and then.
TEST(Contest, RunsThatLookShortDoNotCount) {
  using std::chrono::microseconds;
  group::Contest contest(64);
  std::mt19937 random(7);
  const auto one_in = [&](unsigned n) { return random() % n == 0; };
  int rivals = 0;
  for (int i = 0; i < 20'000; i++) {
    const Side side = contest.choose();
    rivals += side == Side::rival;
    const int usual = one_in(10) ? 40 : 130, rival = one_in(50) ? 300 : 100;
    if (contest.timed()) contest.record(side, microseconds(side == Side::rival ? rival : usual));
  }
  EXPECT_GE(rivals, 17'000);
}

/// The judge of a scatter is soon through with what keeps the others busy; but whatever a program does between two calls is not of the sides' making.
TEST(Contest, TheTimeBetweenCountsWhereItDiffers) {
  using std::chrono::microseconds;
  for (const bool much_else : {false, true}) {
    group::Contest contest(64);
    int rivals = 0;
    for (int i = 0; i < 2000; i++) {
      const Side side = contest.choose();
      rivals += side == Side::rival;
      const microseconds else_(much_else ? 1000 : 0);
      contest.record(side, microseconds(side == Side::rival ? 8 : 6),
                     else_ + microseconds(side == Side::rival ? 40 : 80));
    }
    if (much_else)
      EXPECT_LE(rivals, 200);
    else
      EXPECT_GE(rivals, 1800);
  }
}

TEST(Contest, WhatRunsNextIsKnownOneCallAhead) {
  using std::chrono::microseconds;
  group::Contest contest;
  std::optional<Side> said;
  int rivals = 0, timed = 0;
  for (int i = 0; i < 10'000; i++) {
    const Side side = contest.now();
    ASSERT_TRUE(!said || side == *said) << i;
    said = contest.next();
    rivals += side == Side::rival, timed += contest.timed();
    if (contest.timed()) contest.record(side, microseconds(side == Side::rival ? 100 : 300));
  }
  EXPECT_GE(rivals, 9'950);
  EXPECT_LE(timed, 2'000);
}

TEST(Contest, OneSlowRunChangesNothing) {
  using std::chrono::microseconds;
  group::Contest contest;
  play(contest, 100, microseconds(100), microseconds(300));
  play(contest, 1, microseconds(5000), microseconds(5000));
  EXPECT_LE(play(contest, 20, microseconds(100), microseconds(300)), 4);
}

/// Ranks that share a core end one call and begin the next one in one turn: every other call takes hardly any time.
TEST(Contest, RunsThatEndInOneTurnCountTogether) {
  using std::chrono::microseconds;
  for (const int usual_mean : {15, 35}) {
    group::Contest contest(64);
    int rivals = 0, switches = 0;
    std::optional<Side> last;
    for (int i = 0; i < 10'000; i++) {
      const Side side = contest.now();
      rivals += side == Side::rival;
      switches += last && *last != side;
      last = side;
      const bool short_one = i % 2 == 0;
      const microseconds usual(short_one ? 6 : 2 * usual_mean - 6), between = usual + microseconds(2);
      if (side == Side::usual)
        contest.record(side, usual, between);
      else
        contest.record(side, microseconds(25), microseconds(27));
    }
    if (usual_mean < 25)
      EXPECT_LE(rivals, 200);
    else
      EXPECT_GE(rivals, 9'500);
    EXPECT_LE(switches, 30);
  }
}

/// What takes one time for a while and then another one by itself is not worth a look at the other side each time.
TEST(Contest, AlarmsThatChangeNothingBecomeRare) {
  using std::chrono::microseconds;
  group::Contest contest;
  int rivals = 0;
  for (int i = 0; i < 100'000; i++) {
    const Side side = contest.choose();
    rivals += side == Side::rival;
    if (contest.timed()) contest.record(side, microseconds(side == Side::rival ? 400 : i / 300 % 2 == 0 ? 100 : 250));
  }
  EXPECT_LE(rivals, 700);
}

/// Two runs that were quick by accident make a side win, and soon lose again: then it is no nearer to winning than before.
TEST(Contest, ASwitchThatWasAMistakeDoesNotBeginAnew) {
  using std::chrono::microseconds;
  group::Contest contest(64);
  std::mt19937 random(5);
  int rivals = 0;
  for (int i = 0; i < 20'000; i++) {
    const Side side = contest.now();
    rivals += side == Side::rival;
    const int rival = random() % 2 == 0 ? 80 : 300;
    contest.record(side, microseconds(side == Side::rival ? rival : 100),
                   microseconds(side == Side::rival ? rival : 100));
  }
  EXPECT_LE(rivals, 600);
}

}  // namespace
}  // namespace unisono
