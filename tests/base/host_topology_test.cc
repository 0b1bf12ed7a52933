/// NUMA nodes: of hosts that are not there, and of this one.

#include "base/host_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <fstream>
#include <numeric>
#include <thread>

namespace unisono {
namespace {

using testing::HasSubstr;

std::vector<int> from_to(int first, int end) {
  std::vector<int> cpus(static_cast<std::size_t>(end - first));
  std::iota(cpus.begin(), cpus.end(), first);
  return cpus;
}

HostTopology synthetic(const std::string& description) {
  const auto topology = synthetic_topology(description);
  EXPECT_TRUE(topology.ok()) << topology.status().message();
  return topology ? *topology : HostTopology();
}

TEST(HostTopology, TwoSocketsOf64Cores) {
  if (!has_hwloc()) GTEST_SKIP() << "SKIPPED: built without hwloc";
  const HostTopology topology = synthetic("pack:2 numa:1 core:64 pu:1");
  EXPECT_EQ(topology, HostTopology({{0, from_to(0, 64)}, {1, from_to(64, 128)}}));
  EXPECT_EQ(to_text(topology), "node 0: processors 0-63; node 1: processors 64-127");
  EXPECT_EQ(topology.node_of(std::vector{3}), 0);
  EXPECT_EQ(topology.node_of(from_to(64, 128)), 1);
  EXPECT_EQ(topology.node_of(std::vector{5, 64}), std::nullopt) << "on both";
  EXPECT_EQ(topology.node_of(from_to(0, 128)), std::nullopt);
  EXPECT_EQ(topology.node_of(std::vector{128}), std::nullopt) << "not on this host";
  EXPECT_EQ(topology.node_of({}), std::nullopt);
}

TEST(HostTopology, HyperthreadsAndFourNodes) {
  if (!has_hwloc()) GTEST_SKIP() << "SKIPPED: built without hwloc";
  const HostTopology topology = synthetic("pack:2 numa:2 core:4 pu:2");
  ASSERT_EQ(topology.nodes().size(), 4u);
  for (int node = 0; node < 4; node++)
    EXPECT_EQ(topology.nodes()[static_cast<std::size_t>(node)], (NumaNode{node, from_to(8 * node, 8 * node + 8)}));
}

TEST(HostTopology, OneNodeIsNothingToTell) {
  if (!has_hwloc()) GTEST_SKIP() << "SKIPPED: built without hwloc";
  const HostTopology topology = synthetic("pack:2 core:4 pu:1");
  EXPECT_EQ(topology, HostTopology());
  EXPECT_EQ(topology.node_of(std::vector{0}), std::nullopt);
  EXPECT_EQ(to_text(topology), "one node");
}

TEST(HostTopology, WhatCannotBeUnderstoodIsShown) {
  const auto topology = synthetic_topology("two sockets please");
  ASSERT_FALSE(topology.ok());
  EXPECT_THAT(topology.status().message(), HasSubstr(has_hwloc() ? "two sockets please" : "without hwloc"));
}

TEST(HostTopology, ThisHostsIsWhatTheSystemSays) {
  const auto& topology = this_host_topology();
  std::ifstream file("/sys/devices/system/node/has_cpu");
  std::string nodes;
  if (!std::getline(file, nodes)) GTEST_SKIP() << "SKIPPED: this system does not tell its nodes";
  const bool several = nodes.find_first_of(",-") != std::string::npos;
  if (several && !has_hwloc()) GTEST_SKIP() << "SKIPPED: built without hwloc";
  ASSERT_TRUE(topology.ok()) << topology.status().message();
  EXPECT_EQ(topology->nodes().size() > 1, several) << "nodes with processors: " << nodes;
  EXPECT_EQ(&this_host_topology(), &topology) << "asked once";
}

TEST(UsableCpus, AreThoseOfTheCallingThread) {
  const std::vector<int> all = usable_cpus();
  ASSERT_FALSE(all.empty());
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(all.back()), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(usable_cpus(), std::vector{all.back()});
  }).join();
  EXPECT_EQ(usable_cpus(), all);
}

TEST(MoveToCpu, ThereAndNowhereElseToStay) {
  const std::vector<int> all = usable_cpus();
  for (const int cpu : all) {
    bool there = false;
    for (int i = 0; i < 1000 && !there; i++) {  // the system may take the thread elsewhere between the two
      ASSERT_TRUE(move_to_cpu(cpu));
      there = ::sched_getcpu() == cpu;
    }
    EXPECT_TRUE(there) << cpu;
    EXPECT_EQ(usable_cpus(), all) << "where it may run is as it was";
  }
}

TEST(MoveToCpu, NotWhereItMayNotRun) {
  const std::vector<int> all = usable_cpus();
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(all.front()), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    if (all.size() > 1) {
      EXPECT_FALSE(move_to_cpu(all.back()));
    }
    EXPECT_FALSE(move_to_cpu(-1));
    EXPECT_FALSE(move_to_cpu(1 << 20));
    EXPECT_EQ(usable_cpus(), std::vector{all.front()});
  }).join();
}

TEST(RangesText, IsReadBack) {
  for (const auto& numbers : {std::vector{7}, std::vector{0, 1, 2, 5, 8, 9}, from_to(0, 300), std::vector{0, 65535}})
    EXPECT_EQ(parse_ranges(ranges_text(numbers)), numbers);
  for (const char* nonsense : {"", ",", "1,", "-3", "1-", "a", "1-2-3", "0-99999999", "65536", "1 2", "3x"})
    EXPECT_EQ(parse_ranges(nonsense), std::vector<int>{}) << nonsense;
}

TEST(RangesText, JoinsNeighbours) {
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(ranges_text(std::vector{7}), "7");
  EXPECT_EQ(ranges_text(std::vector{0, 1, 2, 5, 8, 9}), "0-2,5,8-9");
}

}  // namespace
}  // namespace unisono
