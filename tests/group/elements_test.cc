/// Elements of every type in the typed members: complex numbers are reduced, structs, enums and
/// pairs moved.

#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "group/calls_on_memory.h"
#include "unisono/unisono.hpp"

namespace unisono {
namespace {

struct Particle {
  double mass;
  float position[3];
  std::int16_t id;
  friend bool operator==(const Particle& a, const Particle& b) { return a.mass == b.mass && a.id == b.id; }
};
enum class Color : std::uint8_t { red, green, blue };

constexpr int kWorlds[] = {1, 2, 3, 5};
const std::vector<std::size_t> kLengths{0, 1, 2, 3, 7, 257, 20011, 140003};

template <class T>
std::complex<T> number(int rank, std::size_t i) {
  return {static_cast<T>(static_cast<int>(i % 3) - 1 + rank), static_cast<T>(1 - static_cast<int>(i % 2))};
}

template <class T>
void expect_complex_reductions(const Group& world) {
  const int n = world.size();
  for (const std::size_t count : kLengths) {
    if (test::kSanitized && count > 50'000 && n > 2) continue;
    std::vector<std::complex<T>> x(count), sum(count), mean(count), product(count, 1);
    for (std::size_t i = 0; i < count; i++) {
      x[i] = number<T>(world.rank(), i);
      for (int q = 0; q < n; q++) sum[i] += number<T>(q, i), product[i] *= number<T>(q, i);
      mean[i] = {sum[i].real() / static_cast<T>(n), sum[i].imag() / static_cast<T>(n)};
    }
    auto y = x;
    world.all_reduce(y);
    ASSERT_EQ(y, sum) << count;
    world.all_reduce(x, y, ReduceOp::product);  // of small integers: exact
    ASSERT_EQ(y, product) << count;
    y = x;
    world.all_reduce_async(y, ReduceOp::avg).wait();
    ASSERT_EQ(y, mean) << count;
    std::vector<std::complex<T>> at_root(count);
    world.reduce(x, at_root, n - 1, ReduceOp::product);
    if (world.rank() == n - 1) {
      ASSERT_EQ(at_root, product) << count;
    }
    std::vector<std::complex<T>> all, own(count);
    for (int q = 0; q < n; q++) all.insert(all.end(), x.begin(), x.end());
    world.reduce_scatter(all, own, ReduceOp::product);
    ASSERT_EQ(own, product) << count;
  }
}

TEST(Elements, ComplexNumbersAreSummedAveragedAndMultiplied) {
  for (const int n : kWorlds)
    spawn_threads(n, [](Group world) {
      expect_complex_reductions<float>(world);
      expect_complex_reductions<double>(world);
    });
}

TEST(Elements, ComplexNumbersHaveNoOrder) {
  spawn_threads(2, [](Group world) {
    std::vector<std::complex<float>> x(3);
    for (const ReduceOp op : {ReduceOp::min, ReduceOp::max, ReduceOp::band}) try {
        world.all_reduce(x, op);
        ADD_FAILURE() << name_of(op);
      } catch (const InvalidArgument& e) {
        EXPECT_NE(std::string(e.what()).find("is not defined for c64"), std::string::npos) << e.what();
      }
    EXPECT_EQ(world.sequence_number(), 0u);
  });
}

/// Through every collective that only moves. make(i): different elements for different i.
template <class T, class Make>
void expect_moves(const Group& world, Make make) {
  const auto n = static_cast<std::size_t>(world.size()), me = static_cast<std::size_t>(world.rank());
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{5}, std::size_t{4001}}) {
    std::vector<T> all;
    for (std::size_t i = 0; i < n * count; i++) all.push_back(make(i));
    const auto part = [&](std::size_t q) {
      return std::vector<T>(all.begin() + static_cast<std::ptrdiff_t>(q * count),
                            all.begin() + static_cast<std::ptrdiff_t>((q + 1) * count));
    };
    const std::vector<T> mine = part(me);
    const std::vector<T> blank(count, make(0));
    std::vector<T> got(n * count, make(0)), own = blank;
    world.all_gather(mine, got);
    ASSERT_EQ(got, all);
    own = me == 0 ? part(0) : blank;
    world.broadcast(own, 0);
    ASSERT_EQ(own, part(0));
    std::vector<T> at_root(me == n - 1 ? n * count : 0, make(0));
    world.gather(mine, at_root, static_cast<int>(n - 1));
    if (me == n - 1) {
      ASSERT_EQ(at_root, all);
    }
    world.scatter(all, own, 0);
    ASSERT_EQ(own, mine);
    std::vector<T> in;
    for (std::size_t q = 0; q < n; q++) in.insert(in.end(), mine.begin(), mine.end());
    world.all_to_all(in, got);
    ASSERT_EQ(got, all);
    if (n < 2) continue;
    const int next = static_cast<int>((me + 1) % n), before = static_cast<int>((me + n - 1) % n);
    const Work sent = world.isend(mine, next);
    own = blank;
    EXPECT_EQ(world.recv(own, before).bytes, static_cast<std::int64_t>(count * sizeof(T)));
    sent.wait();
    ASSERT_EQ(own, part(static_cast<std::size_t>(before)));
  }
}

TEST(Elements, WhatOnlyMovesTakesAnyTriviallyCopyableType) {
  for (const int n : kWorlds)
    spawn_threads(n, [](Group world) {
      expect_moves<Particle>(world, [](std::size_t i) {
        return Particle{0.5 * static_cast<double>(i), {}, static_cast<std::int16_t>(i)};
      });
      expect_moves<Color>(world, [](std::size_t i) { return static_cast<Color>(i % 3); });
      expect_moves<std::pair<int, double>>(world, [](std::size_t i) { return std::pair(static_cast<int>(i), 0.5); });
      expect_moves<std::complex<double>>(
          world, [](std::size_t i) { return std::complex<double>(1, static_cast<double>(i % 100)); });
      expect_moves<std::array<char, 11>>(world, [](std::size_t i) {
        std::array<char, 11> text{};
        text[10] = static_cast<char>(i % 100);
        return text;
      });
      expect_moves<long double>(world, [](std::size_t i) { return static_cast<long double>(i); });
      expect_moves<char>(world, [](std::size_t i) { return static_cast<char>(i % 100); });
    });
}

TEST(Elements, WhateverIsContiguousConverts) {
  spawn_threads(2, [](Group world) {
    std::array<int, 2> a{1, 2};
    world.all_reduce(a);
    EXPECT_EQ(a, (std::array<int, 2>{2, 4}));
    int plain[] = {world.rank(), 5}, both[4] = {};
    world.all_gather(plain, both);
    EXPECT_EQ(both[2], 1);
    const std::vector<int> in{1, 2};
    std::vector<int> out(2);
    world.all_reduce(in, out, ReduceOp::max);
    world.all_reduce(std::span(in), std::span(out));  // spans of const int and of int
    world.all_reduce<int>(in, out);
    EXPECT_EQ(out, (std::vector<int>{2, 4}));
    std::string text = world.rank() == 0 ? "hello" : "     ";
    world.broadcast(text);
    EXPECT_EQ(text, "hello");
    world.broadcast(std::span<char, 5>(text.data(), 5));
    const auto work = world.broadcast_async(text, 1);
    work.wait();
  });
}

/// As over Gloo: wherever in the output the input lies, it comes to this rank's block first.
TEST(Elements, GatheredFromAnotherPlaceOfTheOutput) {
  for (const int n : {2, 3, 4})
    spawn_threads(n, [n](Group world) {
      const int me = world.rank();
      for (const int count : {1, 6, 3000, 100000})
        for (const int shift : {0, 1, count / 2, count})
          for (const bool asynchronous : {false, true}) {
            std::vector<std::int32_t> out(static_cast<std::size_t>(count * n), -1);
            const int at = ((me + 1) % n * count + shift) % (count * (n - 1) + 1);
            const auto in = std::span(out).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count));
            for (std::size_t i = 0; i < in.size(); i++) in[i] = me * 1000000 + static_cast<std::int32_t>(i);
            Call call{Collective::all_gather, in.data(), out.data(), count, DType::i32};
            if (asynchronous)
              world.start(call).wait();
            else
              world.run(call);
            int wrong = 0;
            for (int i = 0; i < n * count; i++)
              wrong += out[static_cast<std::size_t>(i)] != i / count * 1000000 + i % count;
            ASSERT_EQ(wrong, 0) << count << " " << shift;
          }
    });
}

TEST(Elements, GatheredFromAnotherPlaceOfTheOutputWithCounts) {
  spawn_threads(3, [](Group world) {
    const std::vector<std::int64_t> counts{2, 0, 3};
    std::vector<double> out{9, 9, 9, 9, 9};
    const auto mine = static_cast<std::size_t>(counts[static_cast<std::size_t>(world.rank())]);
    const std::size_t at = world.rank() == 0 ? 3 : 1;
    for (std::size_t i = 0; i < mine; i++) out[at + i] = world.rank() * 10 + static_cast<double>(i);
    for (const Collective c : {Collective::gather, Collective::all_gather}) {
      Call call{c, out.data() + at, out.data(), 0, DType::f64};
      call.counts = counts;
      call.root = 2;
      auto copy = out;
      call.input = copy.data() + at;
      call.output = copy.data();
      world.run(call);
      if (c == Collective::all_gather || world.rank() == 2) {
        EXPECT_EQ(copy, (std::vector<double>{0, 1, 20, 21, 22}));
      }
    }
  });
}

TEST(Elements, OtherOverlapsAreRefused) {
  spawn_threads(2, [](Group world) {
    std::vector<float> x(8, 1);
    for (const Collective c : {Collective::reduce_scatter, Collective::scatter, Collective::all_to_all}) {
      Call call{c, x.data(), x.data() + (world.rank() == 0 ? 1 : 3), 2, DType::f32};
      call.root = world.rank();
      EXPECT_THROW(world.run(call), InvalidArgument) << name_of(c);
    }
    EXPECT_EQ(world.sequence_number(), 0u);
  });
}

TEST(Elements, LengthsThatNobodyKnows) {
  spawn_threads(3, [](Group world) {
    struct Pair {
      char a, b;
      bool operator==(const Pair&) const = default;
    };
    const auto mine = static_cast<std::size_t>(1000 * world.rank());
    const auto parts = world.all_gather_varying(std::vector<double>(mine, world.rank()));
    const auto pairs = world.all_gather_varying(std::vector<Pair>(mine, Pair{'a', static_cast<char>(world.rank())}));
    ASSERT_EQ(parts.size(), 3u);
    for (int r = 0; r < 3; r++) {
      const auto at = static_cast<std::size_t>(r);
      EXPECT_EQ(parts[at], std::vector<double>(1000 * at, r));
      EXPECT_EQ(pairs[at], std::vector<Pair>(1000 * at, Pair{'a', static_cast<char>(r)}));
    }
  });
}

TEST(Elements, ColoursOf64Bits) {
  spawn_threads(4, [](Group world) {
    const std::int64_t big = std::int64_t{1} << 62;
    const Group part = world.split(big + world.rank() % 2, -big * (world.rank() / 2));
    EXPECT_EQ(part.size(), 2);
    EXPECT_EQ(part.rank(), 1 - world.rank() / 2);
    EXPECT_FALSE(world.split(-big));
  });
}

}  // namespace
}  // namespace unisono
