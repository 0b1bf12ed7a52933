/// Which rank runs where, on machines that are not here.

#include "cli/launcher_binding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace unisono::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Nodes with so many cores each, of `threads` processors; numbered as usual: all first threads, then all second ones.
std::vector<NodeCores> machine(const std::vector<int>& cores, int threads = 1) {
  const int all = std::accumulate(cores.begin(), cores.end(), 0);
  std::vector<NodeCores> nodes;
  int core = 0;
  for (const int count : cores) {
    NodeCores node{static_cast<int>(nodes.size()), {}};
    for (int i = 0; i < count; i++, core++) {
      auto& processors = node.cores.emplace_back();
      for (int t = 0; t < threads; t++) processors.push_back(core + t * all);
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<std::vector<int>> where(BindMode mode, int ranks, const std::vector<NodeCores>& nodes) {
  const auto binding = bind_ranks(mode, ranks, nodes);
  EXPECT_TRUE(binding.ok()) << binding.status().message();
  return binding ? binding->processors : std::vector<std::vector<int>>{};
}

TEST(Binding, TwoSocketsOf64CoresWithTwoThreadsEach) {
  const auto nodes = machine({64, 64}, 2);
  const auto binding = bind_ranks(BindMode::automatic, 128, nodes);
  ASSERT_TRUE(binding.ok());
  ASSERT_EQ(binding->processors.size(), 128u);
  EXPECT_EQ(ranges_text(binding->processors[0]), "0-63,128-191");
  EXPECT_EQ(binding->processors[63], binding->processors[0]);
  EXPECT_EQ(ranges_text(binding->processors[64]), "64-127,192-255");
  EXPECT_EQ(binding->processors[127], binding->processors[64]);
  EXPECT_EQ(binding->line,
            "bound local ranks 0-63 to node 0 (processors 0-63,128-191), local ranks 64-127 to node 1 (processors "
            "64-127,192-255); --bind none leaves them to the system");

  const auto own = where(BindMode::core, 128, nodes);
  ASSERT_EQ(own.size(), 128u);
  EXPECT_THAT(own[0], ElementsAre(0, 128));
  EXPECT_THAT(own[127], ElementsAre(127, 255));
  const auto shares = where(BindMode::core, 8, nodes);
  ASSERT_EQ(shares.size(), 8u);
  EXPECT_EQ(ranges_text(shares[3]), "48-63,176-191");
  EXPECT_EQ(ranges_text(shares[4]), "64-79,192-207");
}

TEST(Binding, ByItselfOnlyWhereItPays) {
  EXPECT_THAT(where(BindMode::automatic, 128, machine({128})), IsEmpty());
  EXPECT_THAT(where(BindMode::automatic, kBindFrom - 1, machine({64, 64})), IsEmpty());
  EXPECT_THAT(where(BindMode::none, 128, machine({64, 64})), IsEmpty());
  EXPECT_EQ(where(BindMode::automatic, kBindFrom, machine({4, 4})).size(), 16u) << "more ranks than cores";
}

TEST(Binding, NodesAreFilledInProportionToWhatMayBeUsedOfThem) {
  const auto ranks = where(BindMode::node, 4, machine({6, 2}));
  EXPECT_THAT(ranks, ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5), ElementsAre(0, 1, 2, 3, 4, 5),
                                 ElementsAre(0, 1, 2, 3, 4, 5), ElementsAre(6, 7)));
}

TEST(Binding, OwnCoresAreWholeDisjointAndOfOneNode) {
  for (const auto& nodes : {machine({4, 4}), machine({5, 3, 1}, 2), machine({7}), machine({1, 9}, 2)}) {
    std::size_t cores = 0;
    for (const NodeCores& node : nodes) cores += node.cores.size();
    for (std::size_t n = 1; n <= cores; n++) {
      const auto ranks = where(BindMode::core, static_cast<int>(n), nodes);
      ASSERT_EQ(ranks.size(), n);
      std::vector<int> all;
      for (const auto& processors : ranks) {
        EXPECT_FALSE(processors.empty()) << n;
        all.insert(all.end(), processors.begin(), processors.end());
        std::size_t touched = 0;
        for (const NodeCores& node : nodes) {
          std::size_t here = 0;
          for (const auto& core : node.cores) {
            const auto used = std::count_if(core.begin(), core.end(), [&](int cpu) {
              return std::find(processors.begin(), processors.end(), cpu) != processors.end();
            });
            EXPECT_TRUE(used == 0 || used == static_cast<std::ptrdiff_t>(core.size())) << "half a core, " << n;
            here += used > 0;
          }
          touched += here > 0;
        }
        if (n >= nodes.size()) {
          EXPECT_EQ(touched, 1u) << n << " ranks";
        }
      }
      std::sort(all.begin(), all.end());
      EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "a processor of two ranks, " << n;
    }
  }
}

TEST(Binding, MoreRanksThanCoresIsRefused) {
  const auto binding = bind_ranks(BindMode::core, 3, machine({1, 1}, 2));
  ASSERT_FALSE(binding.ok());
  EXPECT_THAT(binding.status().message(), HasSubstr("3 ranks cannot each have a core of their own, there are 2"));
}

TEST(Binding, OnlyWhatTheLauncherMayUse) {
  const HostTopology host({{0, {0, 1, 2, 3}}, {1, {4, 5, 6, 7}}, {2, {8, 9}}});
  const auto nodes = cores_by_node(host, std::vector{2, 3, 4});
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_EQ(nodes[0].number, 0);
  EXPECT_EQ(nodes[1].number, 1);
  const auto ranks = where(BindMode::node, 2, nodes);
  EXPECT_THAT(ranks, ElementsAre(ElementsAre(2, 3), ElementsAre(4)));
  EXPECT_EQ(cores_by_node(HostTopology(), std::vector{0}).size(), 1u) << "a host of one node";
}

TEST(Binding, NamesOfModes) {
  for (const char* name : kBindNames) EXPECT_TRUE(bind_mode_from_name(name).has_value()) << name;
  EXPECT_FALSE(bind_mode_from_name("socket").has_value());
}

}  // namespace
}  // namespace unisono::cli
