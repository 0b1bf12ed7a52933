/// UNISONO_DETERMINISTIC: the bits of a reduction depend on nothing but the ranks' values.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono {
namespace {

std::vector<float> operands(int rank, std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; i++)
    x[i] = std::sin(static_cast<float>(i * 13 + static_cast<std::size_t>(rank) * 7)) *
           std::exp(static_cast<float>(rank * 3));
  return x;
}

TEST(Deterministic, BitsDoNotDependOnSizeBucketsOrPlace) {
  Config config;
  config.deterministic = true;
  spawn_threads(
      5,
      [](Group world) {
        const auto mine = operands(world.rank(), 20000);
        const auto reduce = [&](std::size_t bucket, std::string_view algorithm) {
          auto x = mine;
          Options o;
          o.algorithm = algorithm;
          for (std::size_t at = 0; at < x.size(); at += bucket)
            world.all_reduce(std::span(x).subspan(at, std::min(bucket, x.size() - at)), ReduceOp::sum, o);
          return x;
        };
        const auto whole = reduce(20000, "");
        for (const auto& [bucket, algorithm] :
             std::vector<std::pair<std::size_t, std::string_view>>{{61, ""},
                                                                   {1000, ""},
                                                                   {20000, "direct"},
                                                                   {333, "direct"},
                                                                   {4096, "staged_one_shot"},
                                                                   {20000, "staged_two_shot"},
                                                                   {20000, "staged_return"}}) {
          const auto parts = reduce(bucket, algorithm);
          ASSERT_EQ(0, std::memcmp(whole.data(), parts.data(), whole.size() * sizeof(float)))
              << "buckets of " << bucket << " " << algorithm;
        }
        // What the network would use is the algorithm with that property, and others do not have it: the test can fail.
        EXPECT_NE(world.algorithms().find("all_reduce@net:0-=direct"), std::string::npos) << world.algorithms();
        const auto ring = reduce(20000, "ring");
        EXPECT_NE(0, std::memcmp(whole.data(), ring.data(), whole.size() * sizeof(float)));
      },
      config);
}

}  // namespace
}  // namespace unisono
