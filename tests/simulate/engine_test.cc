#include "simulate/engine.h"

#include <gmock/gmock.h>

#include <cmath>

#include "simulate/simulate.h"

namespace unisono::simulate {
namespace {

constexpr double kExact = 1e-9;  // relative: what sums in another order may differ by

Simulation simulation_of(Collective collective, const char* name, std::int32_t ranks, const char* model,
                         std::int32_t per_host = 1) {
  plan::Shape shape{ranks, 0, 0, {}};
  for (std::int32_t q = 0; q < ranks; q++) shape.hosts.push_back(q / per_host);
  auto simulation = Simulation::make(*plan::find_algorithm(collective, name), shape, *parse_model(model));
  EXPECT_TRUE(simulation.ok()) << simulation.status().message();
  return std::move(simulation).value();
}

Answer answer_of(const Simulation& simulation, std::int64_t bytes, Options options = {}) {
  auto answer = simulation.time(bytes, options);
  EXPECT_TRUE(answer.ok()) << answer.status().message();
  EXPECT_NEAR(answer->timing.path.total(), answer->timing.seconds, kExact * answer->timing.seconds);
  return *answer;
}

double seconds(Collective collective, const char* name, std::int32_t ranks, std::int64_t bytes, const char* model,
               Options options = {}, std::int32_t per_host = 1) {
  return answer_of(simulation_of(collective, name, ranks, model, per_host), bytes, options).timing.seconds;
}

TEST(Simulation, AlphaBetaGivesTheTextbooksFormulas) {
  constexpr const char* model = "alpha-beta:alpha=20us,beta=8ns/B";
  constexpr double alpha = 20e-6, beta = 8e-9, bytes = 1 << 18;
  const auto rounds = [&](double steps, double volume) { return steps * alpha + volume * bytes * beta; };
  for (const std::int32_t n : {2, 3, 5, 8, 16, 23}) {
    const double share = (n - 1.0) / n, log = std::ceil(std::log2(n));
    const auto time = [&](Collective c, const char* name) { return seconds(c, name, n, 1 << 18, model); };
    EXPECT_NEAR(time(Collective::all_reduce, "ring") / rounds(2 * (n - 1), 2 * share), 1, kExact) << n;
    EXPECT_NEAR(time(Collective::all_reduce, "circulant") / rounds(2 * log, 2 * share), 1, kExact) << n;
    EXPECT_NEAR(time(Collective::reduce_scatter, "ring") / rounds(n - 1, share), 1, kExact) << n;
    EXPECT_NEAR(time(Collective::all_gather, "direct") / rounds(n - 1, share), 1, kExact) << n;
    EXPECT_NEAR(time(Collective::scatter, "linear") / rounds(n - 1, share), 1, kExact) << n;
    EXPECT_NEAR(time(Collective::broadcast, "binomial") / rounds(log, log), 1, kExact) << n;
    EXPECT_NEAR(time(Collective::barrier, "dissemination") / (log * alpha), 1, kExact) << n;
    if (std::exp2(log) == n) {
      EXPECT_NEAR(time(Collective::all_reduce, "recursive_doubling") / rounds(log, log), 1, kExact) << n;
    }
  }
}

TEST(Simulation, ComputingCostsWhatTheModelSays) {
  // Two ranks: each adds half the vector once, before it can send it back.
  const double without = seconds(Collective::all_reduce, "ring", 2, 1 << 18, "alpha-beta:alpha=1us,beta=1ns/B");
  const double with =
      seconds(Collective::all_reduce, "ring", 2, 1 << 18, "alpha-beta:alpha=1us,beta=1ns/B,gamma=2ns/B");
  EXPECT_NEAR(with - without, (1 << 17) * 2e-9, 1e-12);
}

TEST(Simulation, SlicesOverlap) {
  constexpr const char* model = "alpha-beta:alpha=1us,beta=1ns/B";
  constexpr std::int64_t bytes = 1 << 20;
  Options whole, sliced;
  whole.slice = bytes;
  sliced.slice = bytes / 64;
  EXPECT_NEAR(seconds(Collective::broadcast, "chain", 5, bytes, model, whole), 4 * (1e-6 + bytes * 1e-9), 1e-9);
  // 64 slices through 4 links: as long as 67 of them take.
  EXPECT_NEAR(seconds(Collective::broadcast, "chain", 5, bytes, model, sliced), 67 * (1e-6 + bytes / 64 * 1e-9), 1e-9);
}

TEST(Simulation, AWindowHoldsBackWhoWaits) {
  constexpr const char* model = "loggp:L=100us,o=0,g=0,G=1ns/B,header=0,gamma=0,copy=0";
  Options narrow, wide;
  narrow.slice = wide.slice = 1 << 10;
  narrow.window = 1;
  wide.window = 8;
  EXPECT_GT(seconds(Collective::all_reduce, "ring", 4, 1 << 18, model, narrow),
            4 * seconds(Collective::all_reduce, "ring", 4, 1 << 18, model, wide));
}

TEST(Simulation, OneHostForAllTakesAsLongAsEveryRank) {
  const struct {
    Collective collective;
    const char* name;
  } cases[] = {{Collective::all_reduce, "ring"},       {Collective::all_reduce, "circulant"},
               {Collective::all_reduce, "direct"},     {Collective::all_gather, "circulant"},
               {Collective::all_gather, "ring"},       {Collective::reduce_scatter, "direct"},
               {Collective::all_to_all, "bruck"},      {Collective::all_to_all, "pairwise"},
               {Collective::barrier, "dissemination"}, {Collective::all_reduce, "hierarchical"}};
  Options every, one;
  every.how = How::every_rank;
  one.how = How::one_host;
  for (const char* model : {"10g", "hdr:gamma=0.2ns/B", "alpha-beta:alpha=20us,beta=8ns/B", "10g:ports=serial"})
    for (const auto& c : cases)
      for (const std::int32_t per_host : {1, 3}) {
        if (per_host == 1 && std::string_view(c.name) == "hierarchical") continue;
        for (const std::int32_t hosts : {3, 8}) {
          const Simulation simulation = simulation_of(c.collective, c.name, hosts * per_host, model, per_host);
          ASSERT_EQ(simulation.world().copies, hosts)
              << name_of(c.collective) << " " << c.name << " " << hosts << " x " << per_host;
          for (const std::int64_t bytes : {8, 100'000, 8 << 20}) {
            const double expected = answer_of(simulation, bytes, every).timing.seconds;
            EXPECT_NEAR(answer_of(simulation, bytes, one).timing.seconds / expected, 1, kExact)
                << model << " " << name_of(c.collective) << " " << c.name << " " << hosts << " x " << per_host << " "
                << bytes;
          }
        }
      }
}

TEST(Simulation, OneHostForAllIsCloseWhereLinksAreShared) {
  Options every, one;
  every.how = How::every_rank;
  one.how = How::one_host;
  for (const char* model : {"hdr+fat-tree:k=4,taper=2", "hdr+torus:4x4", "hdr+torus:4x2x2"})
    for (const char* name : {"ring", "circulant"}) {
      const Simulation simulation = simulation_of(Collective::all_reduce, name, 16, model);
      const double expected = answer_of(simulation, 4 << 20, every).timing.seconds;
      const Answer estimate = answer_of(simulation, 4 << 20, one);
      EXPECT_TRUE(estimate.estimate);
      EXPECT_NEAR(estimate.timing.seconds / expected, 1, 0.25) << model << " " << name;
    }
}

TEST(Simulation, LinksThatAreSharedTakeLonger) {
  const double full = seconds(Collective::all_to_all, "pairwise", 16, 1 << 24, "hdr+fat-tree:k=4");
  const double tapered = seconds(Collective::all_to_all, "pairwise", 16, 1 << 24, "hdr+fat-tree:k=4,taper=4");
  EXPECT_GT(tapered, 2 * full);
  const Answer answer =
      answer_of(simulation_of(Collective::all_to_all, "pairwise", 16, "hdr+fat-tree:k=4,taper=4"), 1 << 24);
  EXPECT_THAT(answer.timing.busiest, ::testing::HasSubstr("aggregation"));
}

TEST(Simulation, RanksOfAHostShareItsPort) {
  const double alone = seconds(Collective::all_to_all, "pairwise", 8, 1 << 24, "hdr", {}, 1);
  const double four = seconds(Collective::all_to_all, "pairwise", 8, 1 << 24, "hdr+local:G=0.001ns/B", {}, 4);
  EXPECT_GT(four, 2 * alone);
}

TEST(Simulation, FairPortsServeConnectionsSideBySide) {
  // The root of a binomial tree sends to both children at once: either the large subtree's first, or both at half the rate.
  constexpr const char* serial = "loggp:L=0,o=0,g=0,G=1ns/B,header=0,gamma=0,copy=0,ports=serial";
  constexpr const char* fair = "loggp:L=0,o=0,g=0,G=1ns/B,header=0,gamma=0,copy=0,ports=fair";
  constexpr std::int64_t bytes = 100'000;
  EXPECT_NEAR(seconds(Collective::broadcast, "binomial", 4, bytes, serial), 2e-4, kExact * 1e-4);
  EXPECT_NEAR(seconds(Collective::broadcast, "binomial", 4, bytes, fair), 3e-4, kExact * 1e-4);
  EXPECT_NEAR(seconds(Collective::broadcast, "flat", 4, bytes, fair), 3e-4, kExact * 1e-4);
  // Messages into one host share its port in the same way.
  EXPECT_NEAR(seconds(Collective::gather, "linear", 5, 5 * bytes, fair), 4e-4, kExact * 1e-4);
}

TEST(Simulation, EveryAlgorithmEnds) {
  for (const plan::Algorithm& algorithm : plan::algorithms())
    for (const std::int32_t per_host : {1, 2, 12}) {
      if (plan::needs_one_host(algorithm.place) ? per_host != 12
                                                : algorithm.place == plan::Place::several_hosts && per_host != 2)
        continue;
      const char* model = algorithm.place == plan::Place::several_nodes ? "10g+numa:2x6" : "10g";
      const Simulation simulation = simulation_of(algorithm.collective, algorithm.name.data(), 12, model, per_host);
      for (const std::int64_t bytes : {0, 8, 30 << 20}) EXPECT_GT(answer_of(simulation, bytes).timing.seconds, 0);
    }
}

TEST(Simulation, SaysWhenItWouldTakeTooLong) {
  Options few;
  few.most_events = 1000;
  const auto refused = simulation_of(Collective::all_reduce, "binomial", 64, "10g").time(64 << 20, few);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().message(), ::testing::HasSubstr("larger slices"));
}

}  // namespace
}  // namespace unisono::simulate
