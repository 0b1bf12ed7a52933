/// Ranks on several NUMA nodes: who is asked to place what, what they tell each other, and whether results are right. Two of this host's
/// processors stand for two nodes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "base/host_topology.h"
#include "group/calls_on_memory.h"
#include "group/group_impl.h"
#include "unisono/unisono.hpp"

namespace unisono {
namespace {

/// Remembers which node was asked for, and binds nothing.
class Recorder final : public MemoryBinder {
 public:
  Status prefer(std::byte*, std::uint64_t, int node) override {
    const std::lock_guard lock(mutex_);
    asked_.push_back(node);
    return {};
  }
  std::vector<int> asked() const {
    const std::lock_guard lock(mutex_);
    return asked_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<int> asked_;
};

class RefusingBinder final : public MemoryBinder {
 public:
  Status prefer(std::byte*, std::uint64_t, int) override { return Status::system("no", EPERM); }
};

/// `nodes`: by rank, the node whose processor it is bound to; -1: both.
class Nodes : public testing::Test {
 protected:
  void SetUp() override {
    cpus_ = usable_cpus();
    if (!has_hwloc()) GTEST_SKIP() << "SKIPPED: built without hwloc";
    if (cpus_.size() < 2) GTEST_SKIP() << "SKIPPED: one processor cannot stand for two nodes";
  }

  template <class Body>
  void run(const std::vector<int>& nodes, const Body& body, Config config = {}) {
    config.topology = "numa:2 core:" + std::to_string(cpus_.back()) + " pu:1";
    const auto hub = transport::InprocHub::create();
    const auto store = make_memory_store();
    const int size = static_cast<int>(nodes.size());
    std::vector<std::thread> ranks;
    for (int r = 0; r < size; r++)
      ranks.emplace_back([&, r, c = config]() mutable {
        bind(nodes[static_cast<std::size_t>(r)]);
        c.rank = r;
        c.size = size;
        auto context = detail::ContextImpl::create(std::move(c), hub, binder(r));
        const auto impl = detail::join(context, store, r, size, "world");
        body(*impl);
      });
    for (std::thread& rank : ranks) rank.join();
  }

  std::shared_ptr<MemoryBinder> binder(int rank) {
    const std::lock_guard lock(mutex_);
    if (refuse_) return std::make_shared<RefusingBinder>();
    auto& mine = recorders_[rank];
    mine = std::make_shared<Recorder>();
    return mine;
  }
  std::vector<int> asked(int rank) { return recorders_.at(rank)->asked(); }

  bool refuse_ = false;

 private:
  void bind(int node) const {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    if (node != 1) CPU_SET(static_cast<std::size_t>(cpus_.front()), &mask);
    if (node != 0) CPU_SET(static_cast<std::size_t>(cpus_.back()), &mask);
    ASSERT_EQ(::sched_setaffinity(0, sizeof mask, &mask), 0);
  }

  std::vector<int> cpus_;
  std::mutex mutex_;
  std::map<int, std::shared_ptr<Recorder>> recorders_;
};

/// One collective on floats; `count` as Call has it.
void call(detail::GroupImpl& world, Collective collective, const std::vector<float>& in, std::vector<float>& out,
          std::size_t count, const std::string& algorithm, int root = 0) {
  Call c;
  c.collective = collective;
  c.input = in.data();
  c.output = out.data();
  c.count = static_cast<std::int64_t>(count);
  c.dtype = DType::f32;
  c.root = root;
  c.options.algorithm = algorithm;
  world.run(c);
}

/// Every collective that has an algorithm for nodes; `algorithm` empty: as the table says.
void check_collectives(detail::GroupImpl& world, const std::string& algorithm) {
  const auto n = static_cast<std::size_t>(world.size()), r = static_cast<std::size_t>(world.rank());
  for (const std::size_t count :
       {std::size_t{1}, std::size_t{1000}, std::size_t{test::kSanitized ? 40'001 : 150'001}}) {
    std::vector<float> x(count), all(count * n), part(count);
    for (std::size_t i = 0; i < count; i++) x[i] = static_cast<float>((i + r) % 100);
    call(world, Collective::all_gather, x, all, count, algorithm);
    for (std::size_t q = 0; q < n; q++)
      for (std::size_t i = 0; i < count; i++)
        ASSERT_EQ(all[q * count + i], static_cast<float>((i + q) % 100)) << "all_gather of " << count << " on " << r;
    call(world, Collective::reduce_scatter, all, part, count, algorithm);
    for (std::size_t i = 0; i < count; i++)
      ASSERT_EQ(part[i], static_cast<float>(n) * all[r * count + i]) << "reduce_scatter of " << count << " on " << r;
    for (const std::size_t root : {std::size_t{0}, n - 1}) {
      std::vector<float> sent(count, r == root ? 7.0f : 0.0f);
      call(world, Collective::broadcast, sent, sent, count, algorithm, static_cast<int>(root));
      ASSERT_EQ(sent, std::vector<float>(count, 7.0f)) << "broadcast of " << count << " on " << r;
    }
    call(world, Collective::all_reduce, x, x, count, algorithm);
    for (std::size_t i = 0; i < count; i++) {
      float sum = 0;
      for (std::size_t q = 0; q < n; q++) sum += static_cast<float>((i + q) % 100);
      ASSERT_EQ(x[i], sum) << "all_reduce of " << count << " on " << r << ", element " << i;
    }
  }
}

void barrier(detail::GroupImpl& world) {
  Call c;
  c.collective = Collective::barrier;
  world.run(c);
}

TEST_F(Nodes, MemoryIsAskedForOnTheNodeThatARankIsOn) {
  run({0, 1, 1, 0, -1}, [](detail::GroupImpl& world) { barrier(world); });
  for (const int rank : {0, 3}) EXPECT_EQ(asked(rank), std::vector{0}) << rank;
  for (const int rank : {1, 2}) EXPECT_EQ(asked(rank), std::vector{1}) << rank;
  EXPECT_TRUE(asked(4).empty()) << "it may run on both";
}

TEST_F(Nodes, RanksKnowWhoIsOnWhichAndChooseByIt) {
  run({1, 0, 1, 0}, [](detail::GroupImpl& world) {
    EXPECT_EQ(world.parts().nodes, (std::vector<std::int32_t>{0, 1, 0, 1})) << "numbered by their lowest ranks";
    EXPECT_TRUE(world.parts().several_nodes);
    EXPECT_THAT(world.parts().topology, testing::HasSubstr("\nnodes 1x1 0x1 1x1 0x1\n"));
  });
  run({0, 0, 0}, [](detail::GroupImpl& world) {
    EXPECT_EQ(world.parts().nodes, (std::vector<std::int32_t>{0, 0, 0}));
    EXPECT_FALSE(world.parts().several_nodes);
  });
  run({0, 1}, [](detail::GroupImpl& world) { EXPECT_FALSE(world.parts().several_nodes); });
  run({0, 0, 1, -1}, [](detail::GroupImpl& world) {
    EXPECT_TRUE(world.parts().nodes.empty()) << "one does not know";
    EXPECT_FALSE(world.parts().several_nodes);
  });
}

TEST_F(Nodes, ResultsAreRightOnEvenAndUnevenNodes) {
  for (const std::vector<int>& nodes : std::vector<std::vector<int>>{
           {0, 0, 1, 1}, {0, 1, 0, 1, 0}, {0, 1, 1, 1, 1, 1}, {1, 1, 0}, {0, 1}, {0, 0, 0, 0, 1, 1, 1, 1}})
    for (const char* algorithm : {"", "staged_nodes"})
      run(nodes, [&](detail::GroupImpl& world) { check_collectives(world, algorithm); });
}

TEST_F(Nodes, AGroupWithinAGroupHasItsOwn) {
  run({0, 0, 1, 1, 1}, [](detail::GroupImpl& world) {
    if (world.rank() == 0) return;
    const std::vector<int> others{1, 2, 3, 4};
    const auto part = world.subgroup(others, std::chrono::seconds(60));
    EXPECT_EQ(part->parts().nodes, (std::vector<std::int32_t>{0, 1, 1, 1}));
    EXPECT_TRUE(part->parts().several_nodes);
    check_collectives(*part, "");
  });
}

TEST_F(Nodes, DeterministicBitsDoNotDependOnWhoIsWhere) {
  Config config;
  config.deterministic = true;
  run(
      {0, 1, 0, 1},
      [](detail::GroupImpl& world) {
        EXPECT_FALSE(world.parts().several_nodes);
        // A fold in rank order: 1 is lost in 1e8, unless it meets another one first.
        std::vector<float> x(100'000, world.rank() == 0 ? 1e8f : world.rank() == 2 ? -1e8f : 1.0f);
        call(world, Collective::all_reduce, x, x, x.size(), "");
        EXPECT_EQ(x[0], 1.0f);
        EXPECT_EQ(x[99'999], 1.0f);
      },
      config);
}

TEST_F(Nodes, MemoryThatCannotBeBoundIsNoError) {
  refuse_ = true;
  run({0, 0, 1, 1}, [](detail::GroupImpl& world) { check_collectives(world, ""); });
}

TEST_F(Nodes, ATopologyThatIsNoneIsRefused) {
  Config config;
  config.topology = "two of everything";
  try {
    const Context context(config);
    FAIL() << "it was taken";
  } catch (const InvalidArgument& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("UNISONO_TOPOLOGY"), testing::HasSubstr("two of")));
  }
}

}  // namespace
}  // namespace unisono
