/// UNISONO_DEBUG=buffers: who changes the memory of an operation in flight hears of it, and nobody
/// else does.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <latch>
#include <numeric>
#include <string>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono {
namespace {

using ::testing::HasSubstr;

Config checked() {
  Config config;
  config.debug = "buffers";
  return config;
}

/// What `f` throws; empty if nothing.
template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const InvalidArgument& e) {
    return e.what();
  }
  return {};
}

Call sum(const std::vector<float>& in, std::vector<float>& out, std::string_view algorithm = {}) {
  Call call;
  call.collective = Collective::all_reduce;
  call.dtype = DType::f32;
  call.input = in.data();
  call.output = out.data();
  call.count = static_cast<std::int64_t>(in.size());
  call.options.algorithm = algorithm;
  return call;
}

struct Kind {
  std::size_t count;
  const char* algorithm;
  bool in_place;
};
void PrintTo(const Kind& k, std::ostream* out) { *out << k.count << " " << k.algorithm << k.in_place; }

class ChangedMemory : public ::testing::TestWithParam<Kind> {};

INSTANTIATE_TEST_SUITE_P(All, ChangedMemory,
                         ::testing::Values(Kind{8, "", false}, Kind{8, "", true}, Kind{20000, "", false},
                                           Kind{20000, "", true}, Kind{20000, "ring", false}, Kind{20000, "ring", true},
                                           Kind{300000, "", true}));

TEST_P(ChangedMemory, IsToldToWhoChangedIt) {
  const Kind kind = GetParam();
  std::latch changed(1);
  spawn_threads(
      2,
      [&](Group world) {
        const auto rank = static_cast<float>(world.rank());
        std::vector<float> in(kind.count), other(kind.count, -1);
        std::iota(in.begin(), in.end(), rank);
        std::vector<float>& out = kind.in_place ? in : other;
        world.barrier();
        if (world.rank() == 1) changed.wait();
        const Work work = world.start(sum(in, out, kind.algorithm));
        if (world.rank() == 0) {
          std::fill(in.begin() + 3, in.begin() + 6, 1000.0f);
          changed.count_down();
          const std::string said = refusal([&] { work.wait(); });
          const std::string what = kind.in_place ? "elements 3 to 5 of the buffer" : "elements 3 to 5 of the input";
          EXPECT_THAT(said, HasSubstr(what + (kind.in_place ? " (input and output in one)" : "") +
                                      " changed while it was in flight: all_reduce f32 sum of"));
          EXPECT_THAT(said, HasSubstr("#2 of group \"world\""));
          EXPECT_THAT(said, HasSubstr("on rank 0 (host "));
          EXPECT_THAT(said, HasSubstr("3 of " + std::to_string(kind.count) + " elements differ"));
          EXPECT_THAT(said, HasSubstr("wait() for it before writing"));
          EXPECT_EQ(refusal([&] { work.wait(); }), said);
          EXPECT_TRUE(work.done());
          EXPECT_NE(work.error(), nullptr);
        } else {
          EXPECT_EQ(refusal([&] { work.wait(); }), "");
        }
        // The values are those at the call, on all ranks, and the group goes on.
        for (std::size_t i = 0; i < kind.count; i++) ASSERT_EQ(out[i], 2 * static_cast<float>(i) + 1) << i;
        world.all_reduce(in);
      },
      checked());
}

TEST(BufferChecks, ChangesBetweenTheEndAndTheWait) {
  spawn_threads(
      2,
      [](Group world) {
        std::vector<float> x(5, 1), in(5, 2), out(5);
        const Work one = world.all_reduce_async(std::span(x));
        const Work two = world.start(sum(in, out));
        world.barrier();  // both have ended by now
        x[4] = 9;
        in[0]++;
        EXPECT_THAT(refusal([&] { one.wait(); }),
                    HasSubstr("element 4 of the buffer (input and output in one) changed while it was in flight (it "
                              "had ended, but wait() had not yet said so)"));
        EXPECT_TRUE(two.done());
        EXPECT_THAT(refusal([&] { two.wait(); }), HasSubstr("element 0 of the input changed"));
        EXPECT_EQ(out, std::vector<float>(5, 4));
        // Once done() has said so the memory is the program's.
        const Work three = world.all_reduce_async(std::span(in));
        world.barrier();
        EXPECT_TRUE(three.done());
        in[0] = 7;
        three.wait();
        EXPECT_EQ(three.error(), nullptr);
      },
      checked());
}

TEST(BufferChecks, WhoHearsOfTheEndByACallbackMayWrite) {
  spawn_threads(
      2,
      [](Group world) {
        std::vector<float> x(1000, 1);
        std::latch heard(1);
        const Work work = world.all_reduce_async(std::span(x));
        work.on_done([&] { heard.count_down(); });
        heard.wait();
        EXPECT_EQ(x, std::vector<float>(1000, 2));
        x[0] = 5;
        world.all_reduce(x);
        work.wait();
      },
      checked());
}

TEST(BufferChecks, MessagesThatChange) {
  for (const std::size_t count : {std::size_t{2}, std::size_t{5000}, std::size_t{2000000}}) {
    std::latch changed(1);
    spawn_threads(
        2,
        [&](Group world) {
          std::vector<std::int64_t> x(count, 7);
          if (world.rank() == 0) {
            const Work work = world.isend(std::as_bytes(std::span(x)), 1, 3);
            x[1] = 8;
            changed.count_down();
            const std::string said = refusal([&] { work.wait(); });
            EXPECT_THAT(said, HasSubstr("byte 8 of the data changed while it was in flight"));
            EXPECT_THAT(said, HasSubstr("send of " + std::to_string(count * 8) + " bytes to rank 1"));
          } else {
            changed.wait();
            std::vector<std::int64_t> y(count);
            const Work work = world.irecv(std::as_writable_bytes(std::span(y)), 0, 3);
            work.wait();
            EXPECT_EQ(y, x);
            EXPECT_EQ(work.received().bytes, static_cast<std::int64_t>(count * 8));
          }
          world.barrier();
        },
        checked());
  }
}

TEST(BufferChecks, ReceivesThatTheProgramWritesTo) {
  std::latch changed(1);
  spawn_threads(
      2,
      [&](Group world) {
        std::vector<std::int32_t> x(3, 1);
        if (world.rank() == 1) {
          changed.wait();
          return world.send(std::as_bytes(std::span(x)), 0);
        }
        const Work work = world.irecv(std::as_writable_bytes(std::span(x)), 1);
        x[2] = 5;
        changed.count_down();
        EXPECT_THAT(refusal([&] { work.wait(); }),
                    HasSubstr("byte 8 of the data changed while it was in flight: recv"));
      },
      checked());
}

TEST(BufferChecks, AMessageThatIsTooLongFillsTheMemory) {
  spawn_threads(
      2,
      [](Group world) {
        const std::vector<std::int32_t> all{1, 2, 3, 4};
        std::vector<std::int32_t> x(2);
        if (world.rank() == 1) return world.send(std::as_bytes(std::span(all)), 0);
        const std::string said = refusal([&] { world.recv(std::as_writable_bytes(std::span(x)), 1); });
        EXPECT_THAT(said, HasSubstr("does not fit"));
        EXPECT_EQ(x, (std::vector<std::int32_t>{1, 2}));
      },
      checked());
}

/// For Options::interrupted, which a thread asks that waits in a call.
thread_local std::vector<float>* to_change = nullptr;
thread_local std::latch* to_tell = nullptr;
bool change() noexcept {
  if (to_change == nullptr) return false;
  to_change->front() = 77;
  to_change = nullptr;
  to_tell->count_down();
  return false;
}

TEST(BufferChecks, MemoryOfABlockingCall) {
  std::latch changed(1);
  spawn_threads(
      2,
      [&](Group world) {
        std::vector<float> in(50, 1), out(50);
        world.barrier();
        Call call = sum(in, out);
        if (world.rank() == 1) {
          changed.wait();
          world.run(call);
        } else {
          to_change = &in;
          to_tell = &changed;
          call.options.interrupted = &change;
          const std::string said = refusal([&] { world.run(call); });
          EXPECT_THAT(said, HasSubstr("element 0 of the input changed while it was in flight"));
          EXPECT_THAT(said, HasSubstr("#2 of"));
          EXPECT_THAT(said, HasSubstr("Another thread wrote there"));
        }
        EXPECT_EQ(out, std::vector<float>(50, 2));
      },
      checked());
}

TEST(BufferChecks, OverlapsOfOperationsInFlight) {
  std::latch asked(1);
  spawn_threads(
      2,
      [&](Group world) {
        std::vector<float> x(10, 1), y(10), z(10), w(10);
        world.barrier();
        if (world.rank() == 1) asked.wait();
        const Work one = world.start(sum(x, y));
        if (world.rank() == 0) {
          const auto bytes = [](std::vector<float>& v) { return std::as_writable_bytes(std::span(v)); };
          const std::string written = refusal([&] { (void)world.irecv(bytes(x).subspan(4, 4), 1); });
          EXPECT_THAT(written, HasSubstr("recv of 4 bytes from rank 1"));
          EXPECT_THAT(written, HasSubstr("was refused on rank 0 (host "));
          EXPECT_THAT(written, HasSubstr("its data (4 bytes at "));
          EXPECT_THAT(written, HasSubstr("overlaps the input (40 bytes at "));
          EXPECT_THAT(written, HasSubstr("of all_reduce f32 sum of 10 elements (40 B) #2 of group \"world\""));
          EXPECT_THAT(written, HasSubstr("Nothing was sent"));
          EXPECT_THAT(refusal([&] { world.run(sum(y, z)); }), HasSubstr("its input (40 bytes at "));
          EXPECT_THAT(refusal([&] { (void)world.start(sum(z, y)); }), HasSubstr("its output (40 bytes at "));
          EXPECT_THAT(refusal([&] { (void)world.isend(bytes(y).subspan(36), 1); }), HasSubstr("send of 4 bytes"));
          EXPECT_THAT(refusal([&] { world.send(bytes(y), 1); }), HasSubstr("send of 40 bytes"));
          EXPECT_THAT(refusal([&] { (void)world.start(sum(x, x)); }), HasSubstr("#3 of group"));
          asked.count_down();
        }
        // Two may read it. What was refused is no operation: the ranks are in step.
        const Work two = world.start(sum(x, z));
        const Work three = world.start(sum(x, w));
        three.wait();
        one.wait();
        two.wait();
        EXPECT_EQ(y, std::vector<float>(10, 2));
        EXPECT_EQ(w, y);
        EXPECT_EQ(world.sequence_number(), 4u);
        world.all_reduce(x);
        world.all_reduce(y);
        EXPECT_EQ(y, std::vector<float>(10, 4));
      },
      checked());
}

TEST(BufferChecks, WhatEndedButWasNotWaitedForIsInFlight) {
  spawn_threads(
      2,
      [](Group world) {
        std::vector<float> x(10, 1), y(10, 1);
        Work kept = world.all_reduce_async(std::span(x));
        (void)world.all_reduce_async(std::span(y));  // dropped
        world.barrier();
        EXPECT_THAT(refusal([&] { world.all_reduce(x); }), HasSubstr("which is in flight"));
        world.all_reduce(y);
        EXPECT_EQ(y, std::vector<float>(10, 4));
        kept.disown();
        world.all_reduce(x);
        EXPECT_EQ(x, y);
      },
      checked());
}

TEST(BufferChecks, EveryCollectiveInPlace) {
  spawn_threads(
      3,
      [](Group world) {
        const int n = world.size(), r = world.rank();
        for (const std::int64_t count : {std::int64_t{1}, std::int64_t{7}, std::int64_t{40000}}) {
          const auto run = [&](Collective c, float* in, float* out, int root) {
            Call call;
            call.collective = c;
            call.dtype = DType::f32;
            call.input = in;
            call.output = out;
            call.count = count;
            call.root = root;
            const Work work = world.start(call);
            work.wait();
            world.run(call);
          };
          const auto block = [&](std::vector<float>& x, std::int64_t i) { return x.data() + i * count; };
          const auto filled = [&](float value) {
            return std::vector<float>(static_cast<std::size_t>(n * count), value);
          };
          auto x = filled(static_cast<float>(r));
          run(Collective::all_gather, block(x, r), x.data(), 0);
          for (int i = 0; i < n; i++) ASSERT_EQ(*block(x, i), static_cast<float>(i)) << count;
          x = filled(static_cast<float>(r));
          run(Collective::all_gather, block(x, 1), x.data(), 0);  // not in its place: the second time it is rank 1's
          for (int i = 0; i < n; i++) ASSERT_EQ(*block(x, i), 1) << count;
          x = filled(1);
          run(Collective::reduce_scatter, x.data(), block(x, r), 0);
          EXPECT_EQ(*block(x, r), 5);  // 1 + 1 + 1, and 3 + 1 + 1
          x = filled(static_cast<float>(r));
          run(Collective::broadcast, x.data(), x.data(), 1);
          EXPECT_EQ(x[0], 1);
          x = filled(1);
          run(Collective::reduce, x.data(), x.data(), 2);
          EXPECT_EQ(x[0], r == 2 ? 5 : 1);  // 1 + 1 + 1, and once more
          x = filled(static_cast<float>(r));
          run(Collective::gather, block(x, r), x.data(), 1);
          EXPECT_EQ(x.back(), r == 1 ? 2 : static_cast<float>(r));
          x = filled(static_cast<float>(r));
          run(Collective::scatter, x.data(), block(x, r), 1);
          EXPECT_EQ(*block(x, r), 1);
        }
      },
      checked());
}

TEST(BufferChecks, SharedMemoryStaysThat) {
  spawn_threads(
      2,
      [](Group world) {
        constexpr std::size_t kCount = 100000;
        const Buffer in = world.allocate(kCount * 4), out = world.allocate(kCount * 4);
        std::fill_n(reinterpret_cast<float*>(in.data()), kCount, 1.0f);
        Call call;
        call.collective = Collective::all_reduce;
        call.dtype = DType::f32;
        call.input = in.data();
        call.output = out.data();
        call.count = kCount;
        call.options.algorithm = "shared";  // refuses memory that is not
        world.start(call).wait();
        world.run(call);
        EXPECT_EQ(reinterpret_cast<float*>(out.data())[kCount - 1], 2);
      },
      checked());
}

TEST(BufferChecks, WordsThatAreUnknownAreRefused) {
  for (const char* words : {"bufers", "buffers,", ",", "buffers, buffers", "Buffers", "1"}) {
    Config config;
    config.debug = words;
    const std::string said = refusal([&] { Context context(config); });
    EXPECT_THAT(said, HasSubstr("UNISONO_DEBUG=\"" + std::string(words) + "\"")) << words;
    EXPECT_THAT(said, HasSubstr("of these: buffers"));
  }
  Config config;
  config.debug = "buffers,buffers";
  const Context context(config);
}

}  // namespace
}  // namespace unisono
