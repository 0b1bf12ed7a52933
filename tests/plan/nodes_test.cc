/// Algorithms that look at NUMA nodes: what goes between nodes, and in which order ranks read.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plan/host_map.h"
#include "plan/select.h"
#include "plan/verify.h"

namespace unisono::plan {
namespace {

Shape on_nodes(std::vector<std::int32_t> nodes) {
  return {static_cast<std::int32_t>(nodes.size()), 0, 0, {}, std::move(nodes)};
}
Shape even(std::int32_t nodes, std::int32_t each) {
  std::vector<std::int32_t> list;
  for (std::int32_t q = 0; q < nodes * each; q++) list.push_back(q / each);
  return on_nodes(std::move(list));
}

/// What steps read from the stages of ranks on other nodes, in all, as a multiple of S.
double between_nodes(Collective collective, const char* name, const Shape& shape) {
  std::int64_t blocks = 0, all = 0;
  for (const Plan& plan : build_all(*find_algorithm(collective, name), shape)) {
    all = plan.extents;
    for (const Step& step : plan.steps)
      for (const Ref& ref : plan.src(step))
        if (ref.space == Space::stage &&
            shape.nodes[static_cast<std::size_t>(ref.rank)] != shape.nodes[static_cast<std::size_t>(plan.shape.rank)])
          blocks += ref.count;
  }
  return static_cast<double>(blocks) / static_cast<double>(all);
}

TEST(Nodes, BetweenTwoSocketsOf64RanksGoesTwiceTheVectorAndNot128Times) {
  const Shape shape = even(2, 64);
  EXPECT_DOUBLE_EQ(between_nodes(Collective::all_reduce, "staged_two_shot", shape), 128);
  EXPECT_DOUBLE_EQ(between_nodes(Collective::all_reduce, "staged_nodes", shape), 2);
  EXPECT_DOUBLE_EQ(between_nodes(Collective::broadcast, "staged", shape), 64);
  EXPECT_DOUBLE_EQ(between_nodes(Collective::broadcast, "staged_nodes", shape), 1);
  EXPECT_DOUBLE_EQ(between_nodes(Collective::all_gather, "staged", shape), 64);
  EXPECT_DOUBLE_EQ(between_nodes(Collective::all_gather, "staged_nodes", shape), 1);
  EXPECT_DOUBLE_EQ(between_nodes(Collective::reduce_scatter, "staged", shape), 64);
  EXPECT_DOUBLE_EQ(between_nodes(Collective::reduce_scatter, "staged_nodes", shape), 1);
}

TEST(Nodes, UnevenNodesMoveNoMore) {
  const Shape shape = on_nodes({0, 1, 2, 0, 2, 2, 0, 2, 2});
  EXPECT_DOUBLE_EQ(between_nodes(Collective::all_reduce, "staged_nodes", shape), 4);
  for (const Collective c : {Collective::broadcast, Collective::all_gather, Collective::reduce_scatter})
    EXPECT_DOUBLE_EQ(between_nodes(c, "staged_nodes", shape), 2) << name_of(c);
}

TEST(Nodes, EveryRankReadsItsOwnNodeFirstAndNoTwoStartWithTheSame) {
  const Shape shape = on_nodes({0, 1, 0, 1, 1, 0, 2});
  std::set<std::int32_t> first;
  for (std::int32_t r = 0; r < 7; r++) {
    Shape mine = shape;
    mine.rank = r;
    const auto order = nearest_first(mine);
    EXPECT_EQ(std::set<std::int32_t>(order.begin(), order.end()).size(), 6u);
    EXPECT_EQ(std::count(order.begin(), order.end(), r), 0);
    const auto near = [&](std::int32_t q) { return shape.nodes[q] == shape.nodes[r]; };
    EXPECT_TRUE(std::is_partitioned(order.begin(), order.end(), near)) << r;
    if (r != 6) {
      EXPECT_TRUE(first.insert(order.front()).second) << r;
    }
  }
  // Without nodes: around, from the next one on.
  EXPECT_EQ(nearest_first({4, 2, 0}), (std::vector<std::int32_t>{3, 0, 1}));
}

TEST(Nodes, FlatPlansThatReadTheNearestFirstAreProved) {
  for (const Algorithm& a : algorithms())
    if (needs_one_host(a.place))
      for (const Shape& shape : {even(2, 3), on_nodes({0, 1, 0, 2, 1})}) {
        const Report report = verify(a, shape);
        EXPECT_TRUE(report.ok()) << name_of(a.collective) << " " << a.name << "\n" << report.text();
      }
}

TEST(Nodes, TheTableAsksWhoIsWhere) {
  const auto table = *Selector::parse("");
  Question q;
  q.ranks = 128;
  q.bytes = 64 << 20;
  for (const Collective c :
       {Collective::all_reduce, Collective::broadcast, Collective::all_gather, Collective::reduce_scatter}) {
    q.collective = c;
    q.several_nodes = true;
    EXPECT_EQ(table.choose(q)->name, "staged_nodes") << name_of(c);
    q.ranks = 8;
    EXPECT_EQ(table.choose(q)->place, Place::shared_memory) << "few cores do not fill a link: " << name_of(c);
    q.ranks = 128;
    EXPECT_EQ(table.explain(q).algorithm, table.choose(q));
    q.several_nodes = false;
    EXPECT_EQ(table.choose(q)->place, Place::shared_memory) << name_of(c);
    q.shared_buffers = q.several_nodes = true;
    EXPECT_EQ(table.choose(q)->name, "shared") << "zero copy first: " << name_of(c);
    q.shared_buffers = false;
  }
}

TEST(Nodes, RulesForNodesAreText) {
  const auto table = Selector::parse("all_reduce@nodes[4-]:1K-=staged_nodes");
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(to_text(table->rules().back()), "all_reduce@nodes[4-]:1K-=staged_nodes");
  EXPECT_FALSE(Selector::parse("all_reduce@nodes:0-=hierarchical").ok());
  EXPECT_FALSE(Selector::parse("all_reduce@net:0-=staged_nodes").ok());
  Question q;
  q.ranks = 4;
  q.bytes = 1 << 20;
  const auto forced = *Selector::parse("all_reduce:0-=staged_nodes");
  EXPECT_EQ(forced.choose(q)->name, "staged_return");
  EXPECT_THAT(forced.explain(q).reason, testing::HasSubstr("it needs several NUMA nodes"));
}

}  // namespace
}  // namespace unisono::plan
