/// What a group says it has run is what has run.

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono {
namespace {

Config plain() {
  Config config = Config::from_env();
  config.algorithm = "all_reduce:64K-=ring";  // and what is smaller is not inline, either
  config.tuning = "off";
  return config;
}

TEST(LastAlgorithm, IsThatOfTheLastCall) {
  spawn_threads(
      3,
      [](const Group& group) {
        EXPECT_EQ(group.last_algorithm(), "");
        std::vector<float> few(2, 1), many(1 << 16, 1);
        group.broadcast(few);
        EXPECT_EQ(group.last_algorithm(), "inline");
        group.all_reduce(many);
        EXPECT_EQ(group.last_algorithm(), "ring");
        group.barrier();
        EXPECT_EQ(group.last_algorithm(), "inline");
        group.all_reduce(many, ReduceOp::sum, {.algorithm = "recursive_doubling"});
        EXPECT_EQ(group.last_algorithm(), "recursive_doubling");
        group.all_reduce_async(many).wait();
        EXPECT_EQ(group.last_algorithm(), "ring");
        group.broadcast_async(few).wait();
        EXPECT_EQ(group.last_algorithm(), "inline");
        EXPECT_THROW(group.all_reduce(many, ReduceOp::sum, {.algorithm = "none such"}), InvalidArgument);
        EXPECT_EQ(group.last_algorithm(), "inline");
      },
      plain());
}

TEST(LastAlgorithm, KnowsThatBuffersWereShared) {
  spawn_threads(2, [](const Group& group) {
    constexpr std::size_t kBytes = 1 << 20;
    const Buffer in = group.allocate(kBytes), out = group.allocate(kBytes);
    Call call;
    call.collective = Collective::all_reduce;
    call.input = in.data();
    call.output = out.data();
    call.count = kBytes;
    group.run(call);
    EXPECT_EQ(group.last_algorithm(), "shared");
    std::vector<std::byte> own(kBytes);
    call.input = call.output = own.data();
    group.run(call);
    EXPECT_NE(group.last_algorithm(), "shared");
    EXPECT_NE(group.last_algorithm(), "");
  });
}

}  // namespace
}  // namespace unisono
