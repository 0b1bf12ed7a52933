/// Every algorithm of the registry, run by the real engine over the real in-process channels, in one thread and in virtual
/// time, with schedules and faults drawn from seeds. A failure prints the seed that repeats it.

#include <gtest/gtest.h>

#include "engine/simulated_world.h"
#include "long_suite.h"
#include "plan/registry.h"

namespace unisono::engine::test {
namespace {

/// More seeds in the long suite.
int seeds(int usual) { return usual * unisono::test::scale(); }

std::string name(const plan::Algorithm& a) { return std::string(name_of(a.collective)) + " " + std::string(a.name); }

/// Scenarios of one algorithm for n ranks: nothing, one element, fewer elements than ranks, odd, several slices; uneven counts.
std::vector<Scenario> scenarios(const plan::Algorithm& a, int n) {
  std::vector<Scenario> list;
  for (const std::int64_t count :
       {std::int64_t{0}, std::int64_t{1}, static_cast<std::int64_t>(n) - 1, std::int64_t{61}, std::int64_t{997}})
    for (const bool in_place : {false, true}) {
      if (in_place && a.collective == Collective::all_to_all) continue;
      Scenario s;
      s.collective = a.collective;
      s.algorithm = a.name;
      s.count = count;
      s.in_place = in_place;
      s.root = rooted(a.collective) ? static_cast<int>(count % n) : 0;
      list.push_back(s);
      const bool by_rank = a.collective == Collective::all_gather || a.collective == Collective::gather ||
                           a.collective == Collective::scatter || a.collective == Collective::reduce_scatter;
      if (!by_rank || a.even_only()) continue;
      for (int q = 0; q < n; q++) s.counts.push_back(q % 3 == 1 ? 0 : count / (q + 1));
      list.push_back(s);
    }
  return list;
}

TEST(Simulation, EveryAlgorithmIsRightUnderRandomSchedules) {
  for (const int n : {1, 2, 3, 4, 5, 8}) {
    for (int seed = 1; seed <= seeds(1); seed++) {
      SimulatedWorld world(n, {static_cast<std::uint64_t>(seed * 100 + n)}, 512);
      for (const plan::Algorithm& a : plan::algorithms())
        for (const Scenario& s : scenarios(a, n))
          ASSERT_EQ(world.run(s), "") << name(a) << ", " << n << " ranks, count " << s.count
                                      << (s.counts.empty() ? "" : " uneven") << (s.in_place ? ", in place" : "")
                                      << ", root " << s.root << ", seed " << seed;
    }
  }
}

TEST(Simulation, PartialReadsAndDelaysChangeNothing) {
  for (const int n : {2, 3, 5}) {
    for (int seed = 1; seed <= seeds(1); seed++) {
      SimulatedWorld world(n, {static_cast<std::uint64_t>(seed * 1000 + n), true, std::chrono::microseconds(50)}, 512);
      for (const plan::Algorithm& a : plan::algorithms())
        for (const Scenario& s : scenarios(a, n)) {
          if (s.count > 100) continue;
          ASSERT_EQ(world.run(s), "") << name(a) << ", " << n << " ranks, count " << s.count
                                      << (s.counts.empty() ? "" : " uneven") << (s.in_place ? ", in place" : "")
                                      << ", root " << s.root << ", seed " << seed;
        }
    }
  }
}

TEST(Simulation, SeveralStreamsThatDriftApartChangeNothing) {
  for (const int n : {2, 3, 5}) {
    for (int seed = 1; seed <= seeds(1); seed++) {
      const int streams = 2 + (n + seed) % 3;
      SimulatedWorld world(
          n, {static_cast<std::uint64_t>(seed * 1000 + n), seed % 2 == 1, std::chrono::microseconds(50), streams}, 512);
      for (const plan::Algorithm& a : plan::algorithms())
        for (const Scenario& s : scenarios(a, n)) {
          if (s.count > 100) continue;
          ASSERT_EQ(world.run(s), "") << name(a) << ", " << n << " ranks, " << streams << " streams, count " << s.count
                                      << (s.counts.empty() ? "" : " uneven") << (s.in_place ? ", in place" : "")
                                      << ", root " << s.root << ", seed " << seed;
        }
    }
  }
}

TEST(Simulation, ADeathIsBlamedOnTheDead) {
  std::mt19937_64 random(42);
  const auto all = plan::algorithms();
  for (int seed = 1; seed <= seeds(150); seed++) {
    const int n = 2 + static_cast<int>(random() % 5);
    const plan::Algorithm& a = all[random() % all.size()];
    const bool partial = random() % 2 == 0;
    const Duration delay(random() % 20000);
    const int streams = 1 + static_cast<int>(random() % 3);
    SimulatedWorld world(n, {static_cast<std::uint64_t>(seed), partial, delay, streams}, 256);
    const auto list = scenarios(a, n);
    Scenario s = list[random() % list.size()];
    // Longer blocks are cut, and then ranks on one processor let each other go first.
    if (plan::needs_shared_buffers(a.place) && s.counts.empty() && random() % 2 == 0) s.count = 20'000;
    const int victim = static_cast<int>(random() % static_cast<std::uint64_t>(n));
    const int when = static_cast<int>(random() % 400);
    ASSERT_EQ(world.run(s, victim, when), "") << name(a) << ", " << n << " ranks, " << streams << " streams, victim "
                                              << victim << " after " << when << " turns, seed " << seed;
  }
}

TEST(Simulation, NobodyMissesARankThatDestroysTheGroupWhenItIsThrough) {
  std::mt19937_64 random(7);
  const auto all = plan::algorithms();
  for (int seed = 1; seed <= seeds(150); seed++) {
    const int n = 2 + static_cast<int>(random() % 5);
    const plan::Algorithm& a = all[random() % all.size()];
    const Duration delay(random() % 20000);
    const int streams = 1 + static_cast<int>(random() % 3);
    SimulatedWorld world(n, {static_cast<std::uint64_t>(seed), random() % 2 == 0, delay, streams}, 256);
    const auto list = scenarios(a, n);
    Scenario s = list[random() % list.size()];
    s.leaves = true;
    ASSERT_EQ(world.run(s), "") << name(a) << ", " << n << " ranks, " << streams << " streams, seed " << seed;
  }
}

TEST(Simulation, TheSameSeedIsTheSameRun) {
  std::uint64_t traces[2];
  for (std::uint64_t& trace : traces) {
    SimulatedWorld world(4, {99, true, std::chrono::microseconds(20)}, 512);
    Scenario s;
    s.algorithm = "ring";
    s.count = 500;
    ASSERT_EQ(world.run(s), "");
    trace = world.trace();
  }
  EXPECT_EQ(traces[0], traces[1]);
}

}  // namespace
}  // namespace unisono::engine::test
