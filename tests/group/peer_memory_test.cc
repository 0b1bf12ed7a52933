/// Collectives that read the ranks' memory wherever it lies: as algorithms of their own, and in contest with the usual ones.

#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "group/calls_on_memory.h"
#include "long_suite.h"
#include "unisono/unisono.hpp"

namespace unisono {
namespace {

using Values = std::vector<std::int64_t>;

/// What rank r puts at i.
std::int64_t value(int rank, std::int64_t i) { return rank * 1'000'003 + i * 7; }
Values values(int rank, std::int64_t count) {
  Values v(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; i++) v[static_cast<std::size_t>(i)] = value(rank, i);
  return v;
}
std::int64_t sum(int ranks, std::int64_t i) {
  std::int64_t total = 0;
  for (int r = 0; r < ranks; r++) total += value(r, i);
  return total;
}

/// Elements that are not rank r's from place `from` on.
int wrong_in(std::span<const std::int64_t> data, int rank, std::int64_t from) {
  int wrong = 0;
  for (const std::int64_t x : data) wrong += x != value(rank, from++);
  return wrong;
}

/// Elements of the output of rank `rank` that are wrong after `call` on `count` elements a block.
int wrong_after(const Group& world, Collective collective, std::int64_t count, const std::string& algorithm,
                int root = 0) {
  const int n = world.size(), rank = world.rank();
  const bool at_root = rank == root;
  const bool to_root = collective == Collective::reduce || collective == Collective::gather;
  const bool many_in = collective == Collective::reduce_scatter || collective == Collective::all_to_all ||
                       (collective == Collective::scatter && at_root);
  const bool many_out = collective == Collective::all_gather || collective == Collective::all_to_all ||
                        (collective == Collective::gather && at_root);
  Values in = values(rank, many_in ? n * count : count);
  Values out(static_cast<std::size_t>(to_root && !at_root ? 0 : many_out ? n * count : count), -1);
  Call call;
  call.root = root;
  call.collective = collective;
  call.count = count;
  call.dtype = DType::i64;
  call.options.algorithm = algorithm;
  call.input = in.data();
  call.output = out.data();
  world.run(call);
  int wrong = in != values(rank, static_cast<std::int64_t>(in.size()));  // nobody writes to inputs
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(out.size()); i++) {
    const int block = static_cast<int>(i / std::max<std::int64_t>(count, 1));
    const std::int64_t within = i - block * count, own = rank * count + i;
    const std::int64_t expected = collective == Collective::all_reduce || collective == Collective::reduce ? sum(n, i)
                                  : collective == Collective::reduce_scatter                               ? sum(n, own)
                                  : many_out && collective != Collective::all_to_all ? value(block, within)
                                  : collective == Collective::all_to_all ? value(block, rank * count + within)
                                  : collective == Collective::scatter    ? value(root, own)
                                                                         : value(root, i);
    wrong += out[static_cast<std::size_t>(i)] != expected;
  }
  return wrong;
}

constexpr Collective kReading[] = {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter,
                                   Collective::all_to_all, Collective::broadcast,  Collective::scatter,
                                   Collective::gather,     Collective::reduce};

TEST(PeerMemory, EveryAlgorithmIsRight) {
  for (const int n : {2, 3, 5})
    for (const Collective collective : kReading)
      for (const std::int64_t count : {0, 1, 1000, 40'000})
        spawn_threads(n, [&](Group world) {
          EXPECT_EQ(wrong_after(world, collective, count, "single_copy", n / 2), 0)
              << name_of(collective) << " of " << count << " on rank " << world.rank() << " of " << n;
        });
}

/// Blocks of the last size go in several slices; with an odd number of ranks one is alone.
TEST(PeerMemory, PairsReadForEachOther) {
  for (const int n : {2, 3, 4, 5, 8})
    spawn_threads(n, [&](Group world) {
      for (const std::int64_t count : {0, 1, 1000, 7001, 40'000, 150'000}) {
        if (test::kSanitized && count > 50'000 && n > 3) continue;
        EXPECT_EQ(wrong_after(world, Collective::all_to_all, count, "single_copy_pairs", 0), 0)
            << count << " on rank " << world.rank() << " of " << n;
      }
    });
}

/// Long enough that both sides of the contest have run, some of it in turn with small operations and the other collectives.
TEST(PeerMemory, AContestChangesNoResult) {
  for (const int n : {2, 3})
    spawn_threads(n, [](Group world) {
      for (int round = 0; round < 24; round++)
        for (const Collective collective : kReading)
          ASSERT_EQ(wrong_after(world, collective, round % 3 == 0 ? 7 : 30'000, "", round % world.size()), 0)
              << name_of(collective) << " " << round;
    });
}

TEST(PeerMemory, InPlaceSumsAreRight) {
  spawn_threads(3, [](Group world) {
    for (int round = 0; round < 8; round++) {
      Values data = values(world.rank(), 50'000);
      world.all_reduce(std::span(data), ReduceOp::sum, {.algorithm = round % 2 == 0 ? "single_copy" : ""});
      for (std::int64_t i = 0; i < 50'000; i++) ASSERT_EQ(data[static_cast<std::size_t>(i)], sum(3, i)) << i;
    }
  });
}

/// Where the root has its block already it writes a part of the others'.
TEST(PeerMemory, RootsInPlaceHelp) {
  for (const int n : {2, 3})
    for (const std::string algorithm : {"single_copy", ""})
      spawn_threads(n, [&](Group world) {
        constexpr std::int64_t kCount = 250'000;  // long enough even for two that are helped by one
        for (int round = 0; round < (test::long_suite() ? 8 : 4); round++) {
          const int root = round % n;
          Values data = values(root, kCount);
          if (world.rank() != root) std::ranges::fill(data, -1);
          world.broadcast(std::span(data), root, {.algorithm = algorithm});
          ASSERT_EQ(data, values(root, kCount)) << round;
          Values blocks = values(root, n * kCount);
          const auto block = [&](Values& of, int r) {
            return std::span(of).subspan(static_cast<std::size_t>(r * kCount), kCount);
          };
          Values own(kCount, -1);
          const bool at_root = world.rank() == root;
          world.scatter(at_root ? std::span<const std::int64_t>(blocks) : std::span<const std::int64_t>{},
                        at_root ? block(blocks, root) : std::span(own), root, {.algorithm = algorithm});
          if (!at_root) {
            ASSERT_EQ(wrong_in(own, root, world.rank() * kCount), 0) << round;
          }
          Values all = values(world.rank(), n * kCount);  // at the root its own block is right already
          world.gather(std::span<const std::int64_t>(block(all, world.rank())),
                       at_root ? std::span(all) : std::span<std::int64_t>{}, root, {.algorithm = algorithm});
          for (int r = 0; at_root && r < n; r++) {
            ASSERT_EQ(wrong_in(block(all, r), r, r * kCount), 0) << round;
          }
        }
      });
}

/// Short ones only where that makes rounds shorter: for some calls it is tried in any case.
TEST(PeerMemory, HelpThatIsTriedChangesNoResult) {
  spawn_threads(2, [](Group world) {
    constexpr std::int64_t kCount = 8192;
    for (int round = 0; round < (test::long_suite() ? 500 : 250); round++) {
      const int root = 0;
      Values data(kCount, world.rank() == root ? round : -1);
      world.broadcast(std::span(data), root);
      ASSERT_EQ(data, Values(kCount, round)) << round;
      const bool at_root = world.rank() == root;
      Values blocks = at_root ? Values(2 * kCount, round + 1) : Values{};
      const std::span<std::int64_t> own = at_root ? std::span(blocks).first(kCount) : std::span(data);
      world.scatter(std::span<const std::int64_t>(blocks), own, root);
      ASSERT_EQ(data, Values(kCount, at_root ? round : round + 1)) << round;
      world.gather(std::span<const std::int64_t>(own), std::span(blocks), root);
      if (at_root) {
        ASSERT_EQ(blocks, Values(2 * kCount, round + 1)) << round;
        ASSERT_EQ(own.data(), blocks.data());
      }
      Values operand(kCount, world.rank() + round);
      world.reduce(std::span<const std::int64_t>(operand), at_root ? std::span(operand) : std::span<std::int64_t>{},
                   root);
      ASSERT_EQ(operand, Values(kCount, at_root ? 2 * round + 1 : world.rank() + round)) << round;
    }
  });
}

/// Whether the others' memory is shared a rank does not know when it offers a part of what it would get through the kernel. In some rounds all memory is shared, in others one rank's, or none.
TEST(PeerMemory, WhatIsOfferedForNothingHarmsNobody) {
  for (const int n : {2, 3})
    spawn_threads(n, [n](Group world) {
      constexpr std::int64_t kCount = 250'000;
      const Buffer shared = world.allocate(static_cast<std::size_t>(n * kCount) * sizeof(std::int64_t));
      const bool at_root = world.rank() == 0;
      for (int round = 0; round < (test::long_suite() ? 60 : test::kSanitized ? 10 : 20); round++) {
        Values own(static_cast<std::size_t>(n * kCount), -1);
        const int opens = round % (n + 2);
        const auto all = opens == n || opens == world.rank() ? shared.span<std::int64_t>() : std::span(own);
        const auto mine = all.subspan(static_cast<std::size_t>(world.rank() * kCount), kCount);
        std::ranges::fill(all, at_root ? round : -1);
        world.broadcast(mine, 0);
        ASSERT_EQ(std::ranges::count(mine, round), kCount) << round;
        std::ranges::fill(all, at_root ? round + 1 : -1);
        world.scatter(std::span<const std::int64_t>(at_root ? all : std::span<std::int64_t>{}), mine, 0);
        ASSERT_EQ(std::ranges::count(mine, round + 1), kCount) << round;
        std::ranges::fill(all, -1);
        std::ranges::fill(mine, round + 2);
        world.gather(std::span<const std::int64_t>(mine), at_root ? all : std::span<std::int64_t>{}, 0);
        ASSERT_EQ(std::ranges::count(all, round + 2), at_root ? n * kCount : kCount) << round;
      }
    });
}

TEST(PeerMemory, UnevenCountsAreRight) {
  spawn_threads(3, [](Group world) {
    const Values counts{70'000, 0, 20'000};
    const std::int64_t mine = counts[static_cast<std::size_t>(world.rank())];
    const Values in = values(world.rank(), mine);
    Values out(90'000);
    for (int round = 0; round < 6; round++) {
      Call call;
      call.collective = Collective::all_gather;
      call.count = mine;
      call.counts = counts;
      call.dtype = DType::i64;
      call.options.algorithm = round % 2 == 0 ? "single_copy" : "";
      call.input = in.data();
      call.output = out.data();
      world.run(call);
      for (std::int64_t i = 0; i < 90'000; i++)
        ASSERT_EQ(out[static_cast<std::size_t>(i)], i < 70'000 ? value(0, i) : value(2, i - 70'000)) << i;
    }
  });
}

TEST(PeerMemory, OneRanksNoIsEverybodys) {
  Config config;
  config.peer_memory = false;
  spawn_threads(
      2,
      [](Group world) {
        std::vector<float> data(100'000, 1.0F);
        try {
          world.all_reduce(std::span(data), ReduceOp::sum, {.algorithm = "single_copy"});
          ADD_FAILURE() << "it ran";
        } catch (const InvalidArgument& e) {
          EXPECT_NE(std::string(e.what()).find("UNISONO_PEER_MEMORY"), std::string::npos) << e.what();
        }
        world.all_reduce(std::span(data));  // by way of stages
        EXPECT_EQ(data.back(), 2.0F);
      },
      config);
}

}  // namespace
}  // namespace unisono
