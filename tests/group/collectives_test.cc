/// Collectives of the public API, ranks as threads, against plain definitions.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "group/calls_on_memory.h"
#include "unisono/unisono.hpp"

namespace unisono {
namespace {

template <class T>
std::vector<T> iota(std::int64_t n, T from) {
  std::vector<T> v(static_cast<std::size_t>(n));
  std::iota(v.begin(), v.end(), from);
  return v;
}

const std::vector<std::int64_t> kCounts{0, 1, 2, 5, 10, 11, 100, 1023, 30000, 300001};

class Collectives : public testing::TestWithParam<int> {};

TEST_P(Collectives, AllReduceInPlaceAndOut) {
  spawn_threads(GetParam(), [](Group world) {
    const int n = world.size();
    for (const std::int64_t count : kCounts) {
      auto x = iota<float>(count, static_cast<float>(world.rank()));
      const auto before = x;
      std::vector<float> y(x.size(), -1);
      world.all_reduce(std::span<const float>(x), std::span(y));
      ASSERT_EQ(x, before) << "the input was written";
      world.all_reduce(std::span(x));
      for (std::int64_t i = 0; i < count; i++) {
        const auto expected = static_cast<float>(n * i + n * (n - 1) / 2);
        ASSERT_EQ(x[static_cast<std::size_t>(i)], expected) << i << " of " << count;
        ASSERT_EQ(y[static_cast<std::size_t>(i)], expected) << i << " of " << count;
      }
    }
  });
}

TEST_P(Collectives, AverageDividesOnce) {
  spawn_threads(GetParam(), [](Group world) {
    for (const std::int64_t count : {1, 7, 5000, 200000}) {
      std::vector<double> x(static_cast<std::size_t>(count), world.rank() + 0.5);
      world.all_reduce(std::span(x), ReduceOp::avg);
      const double expected = (world.size() * (world.size() - 1) / 2 + 0.5 * world.size()) / world.size();
      for (const double v : x) ASSERT_EQ(v, expected);
    }
  });
}

/// Each algorithm divides the whole sum once: quotients of partial sums would be truncated more than once.
TEST_P(Collectives, AverageOfIntegersTruncatesTheWholeSum) {
  spawn_threads(GetParam(), [](Group world) {
    const auto average_of = [&]<class T>(T) {
      const T n = static_cast<T>(world.size());
      for (const std::int64_t count : {1, 7, 5000, 200000}) {
        if (test::kSanitized && count > 5000 && world.size() > 2) continue;
        const auto size = static_cast<std::size_t>(count);
        std::vector<T> x(size), all(size * static_cast<std::size_t>(world.size())), part(size), root(size);
        T sum = 0;
        for (int r = 0; r < world.size(); r++) sum = static_cast<T>(sum + static_cast<T>(2 - 3 * r));
        const T mine = static_cast<T>(2 - 3 * world.rank()), expected = static_cast<T>(sum / n);
        std::fill(x.begin(), x.end(), mine);
        std::fill(all.begin(), all.end(), mine);
        world.reduce(std::span<const T>(x), std::span(root), world.size() - 1, ReduceOp::avg);
        world.reduce_scatter(std::span<const T>(all), std::span(part), ReduceOp::avg);
        world.all_reduce(std::span(x), ReduceOp::avg);
        ASSERT_EQ(std::ranges::count(x, expected), count) << +expected << " " << +x.front();
        ASSERT_EQ(std::ranges::count(part, expected), count) << +expected << " " << +part.front();
        if (world.rank() == world.size() - 1) {
          ASSERT_EQ(std::ranges::count(root, expected), count) << +expected << " " << +root.front();
        }
      }
    };
    average_of(std::int8_t{}), average_of(std::int32_t{}), average_of(std::int64_t{}), average_of(std::uint16_t{});
  });
}

TEST_P(Collectives, MinMaxPropagateNaNFromAnyRank) {
  spawn_threads(GetParam(), [](Group world) {
    for (int holder = 0; holder < world.size(); holder++)
      for (const ReduceOp op : {ReduceOp::min, ReduceOp::max})
        for (const std::size_t count : {std::size_t{1}, std::size_t{3000}}) {
          std::vector<float> x(count, static_cast<float>(world.rank()));
          if (world.rank() == holder) x.back() = std::numeric_limits<float>::quiet_NaN();
          world.all_reduce(std::span(x), op);
          ASSERT_TRUE(std::isnan(x.back())) << "NaN at rank " << holder;
          if (count > 1) {
            ASSERT_EQ(x.front(), op == ReduceOp::min ? 0 : world.size() - 1);
          }
        }
  });
}

TEST_P(Collectives, BroadcastAndReduceWithEveryRoot) {
  spawn_threads(GetParam(), [](Group world) {
    const int n = world.size();
    for (int root = 0; root < n; root++)
      for (const std::int64_t count : kCounts) {
        auto x = world.rank() == root ? iota<std::int64_t>(count, root)
                                      : std::vector<std::int64_t>(static_cast<std::size_t>(count), -1);
        world.broadcast(std::span(x), root);
        ASSERT_EQ(x, iota<std::int64_t>(count, root));

        const auto mine = iota<std::int64_t>(count, world.rank());
        std::vector<std::int64_t> sum(world.rank() == root ? mine.size() : 0, -1);
        auto input = mine;
        world.reduce(std::span<const std::int64_t>(input), std::span(sum), root);
        ASSERT_EQ(input, mine) << "reduce wrote the input of rank " << world.rank();
        for (std::size_t i = 0; i < sum.size(); i++)
          ASSERT_EQ(sum[i], n * static_cast<std::int64_t>(i) + n * (n - 1) / 2);
      }
  });
}

TEST_P(Collectives, GatherScatterAndTheirAllForms) {
  spawn_threads(GetParam(), [](Group world) {
    const int n = world.size(), me = world.rank();
    for (const std::int64_t count : {0, 1, 3, 10, 4096, 70000}) {
      const auto c = static_cast<std::size_t>(count);
      const auto whole = iota<std::int32_t>(count * n, 0);
      const std::vector<std::int32_t> part(
          whole.begin() + static_cast<std::ptrdiff_t>(c * static_cast<std::size_t>(me)),
          whole.begin() + static_cast<std::ptrdiff_t>(c * static_cast<std::size_t>(me + 1)));
      std::vector<std::int32_t> all(whole.size(), -1), own(c, -1);
      world.all_gather(std::span<const std::int32_t>(part), std::span(all));
      ASSERT_EQ(all, whole);
      const int root = n - 1;
      std::vector<std::int32_t> at_root(me == root ? whole.size() : 0, -1);
      world.gather(std::span<const std::int32_t>(part), std::span(at_root), root);
      if (me == root) {
        ASSERT_EQ(at_root, whole);
      }
      world.scatter(std::span<const std::int32_t>(me == root ? whole : std::vector<std::int32_t>{}), std::span(own),
                    root);
      ASSERT_EQ(own, part);
      world.reduce_scatter(std::span<const std::int32_t>(whole), std::span(own));
      for (std::size_t i = 0; i < c; i++) ASSERT_EQ(own[i], n * part[i]);
      std::vector<std::int32_t> in(whole.size()), out(whole.size(), -1);
      for (std::size_t i = 0; i < in.size(); i++) in[i] = me * 1000000 + static_cast<std::int32_t>(i);
      world.all_to_all(std::span<const std::int32_t>(in), std::span(out));
      for (int q = 0; q < n; q++)
        for (std::size_t i = 0; i < c; i++)
          ASSERT_EQ(out[static_cast<std::size_t>(q) * c + i],
                    q * 1000000 + me * static_cast<std::int32_t>(c) + static_cast<std::int32_t>(i));
      world.barrier();
    }
  });
}

TEST_P(Collectives, UnevenCounts) {
  spawn_threads(GetParam(), [](Group world) {
    const int n = world.size(), me = world.rank();
    for (const std::int64_t scale : {1, 50, 20000}) {
      std::vector<std::int64_t> counts;
      for (int q = 0; q < n; q++) counts.push_back(q % 2 == 1 ? 0 : (q + 1) * scale);
      const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
      const std::int64_t before = std::accumulate(counts.begin(), counts.begin() + me, std::int64_t{0});
      const auto whole = iota<std::int16_t>(total, 0);
      std::vector<std::int16_t> part(whole.begin() + before,
                                     whole.begin() + before + counts[static_cast<std::size_t>(me)]),
          out(whole.size(), -1);
      Call call;
      call.collective = Collective::all_gather;
      call.dtype = DType::i16;
      call.input = part.data();
      call.output = out.data();
      call.counts = counts;
      world.run(call);
      ASSERT_EQ(out, whole);
      std::vector<std::int16_t> own(part.size(), -1);
      call.collective = Collective::reduce_scatter;
      call.op = ReduceOp::max;
      call.input = whole.data();
      call.output = own.data();
      world.run(call);
      ASSERT_EQ(own, part);
    }
  });
}

TEST_P(Collectives, UnevenAllToAll) {
  spawn_threads(GetParam(), [](Group world) {
    const int n = world.size(), me = world.rank();
    const auto amount = [](int from, int to) { return static_cast<std::int64_t>((from + 2 * to) % 4 * 300); };
    std::vector<std::int64_t> to(static_cast<std::size_t>(n)), from(static_cast<std::size_t>(n));
    std::vector<double> in, expected;
    for (int q = 0; q < n; q++) {
      to[static_cast<std::size_t>(q)] = amount(me, q);
      from[static_cast<std::size_t>(q)] = amount(q, me);
      for (std::int64_t i = 0; i < amount(me, q); i++) in.push_back(me * 100 + q + 0.001 * static_cast<double>(i));
      for (std::int64_t i = 0; i < amount(q, me); i++)
        expected.push_back(q * 100 + me + 0.001 * static_cast<double>(i));
    }
    std::vector<double> out(expected.size(), -1);
    Call call;
    call.collective = Collective::all_to_all;
    call.dtype = DType::f64;
    call.input = in.data();
    call.output = out.data();
    call.counts = to;
    call.output_counts = from;
    world.run(call);
    EXPECT_EQ(out, expected);
  });
}

TEST_P(Collectives, TheSameBitsOnAllRanks) {
  spawn_threads(GetParam(), [](Group world) {
    for (const std::int64_t count : {3, 2000, 100000}) {
      std::vector<float> x(static_cast<std::size_t>(count));
      for (std::size_t i = 0; i < x.size(); i++)
        x[i] = std::sin(static_cast<float>(i * 31 + static_cast<std::size_t>(world.rank()) * 7)) * 1e3f;
      world.all_reduce(std::span(x));
      std::vector<float> everyone(x.size() * static_cast<std::size_t>(world.size()));
      world.all_gather(std::span<const float>(x), std::span(everyone));
      for (int q = 0; q < world.size(); q++)
        ASSERT_EQ(0, std::memcmp(x.data(), everyone.data() + static_cast<std::size_t>(q) * x.size(),
                                 x.size() * sizeof(float)))
            << "rank " << q;
    }
  });
}

TEST_P(Collectives, ManyAsynchronousOnesAtOnce) {
  spawn_threads(GetParam(), [](Group world) {
    std::vector<std::vector<float>> buffers;
    for (int i = 0; i < 20; i++)
      buffers.emplace_back(static_cast<std::size_t>(1 + i * 3000), static_cast<float>(i + world.rank()));
    std::vector<Work> works;
    for (auto& b : buffers) works.push_back(world.all_reduce_async(std::span(b)));
    std::vector<double> blocking(100, 1.0);
    world.all_reduce(std::span(blocking));  // behind them in the queue
    for (const Work& w : works) w.wait();
    const int n = world.size();
    for (int i = 0; i < 20; i++)
      for (const float v : buffers[static_cast<std::size_t>(i)])
        ASSERT_EQ(v, static_cast<float>(n * i + n * (n - 1) / 2));
    ASSERT_EQ(blocking.front(), n);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 7));

}  // namespace
}  // namespace unisono
