/// What goes wrong is an error on every rank, soon, and says what it was.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono {
namespace {

/// Runs `body` on n ranks; the message of the E that each rank must raise.
template <class E>
std::vector<std::string> all_raise(int n, const std::function<void(Group)>& body) {
  std::vector<std::string> messages(static_cast<std::size_t>(n));
  const auto started = std::chrono::steady_clock::now();
  spawn_threads(n, [&](Group world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    try {
      body(world);
      messages[rank] = "no error";
    } catch (const E& e) {
      messages[rank] = e.what();
    }
    EXPECT_NE(messages[rank], "no error") << "rank " << rank;
  });
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(20));
  return messages;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct Odd {
  const char* name;
  std::function<void(Group)> usual, odd;
  const char* said;  ///< what the message says of the odd one
};

/// One rank calls something else than the others.
std::vector<Odd> odd_calls(std::size_t count) {
  const auto call = [count](Collective c, DType d, ReduceOp op, int root, std::size_t n,
                            std::string_view algorithm = {}) {
    return [=](Group g) {
      std::vector<double> in(n), out(n);
      Call x;
      x.collective = c;
      x.dtype = d;
      x.op = op;
      x.root = root;
      x.count = static_cast<std::int64_t>(n);
      x.input = in.data();
      x.output = out.data();
      x.options.algorithm = algorithm;
      g.run(x);
      g.barrier();  // a root may be done before the others find out; nobody gets past this
    };
  };
  const auto usual = call(Collective::all_reduce, DType::f32, ReduceOp::sum, 0, count);
  return {
      {"dtype", usual, call(Collective::all_reduce, DType::i32, ReduceOp::sum, 0, count), "all_reduce i32 sum"},
      {"op", usual, call(Collective::all_reduce, DType::f32, ReduceOp::max, 0, count), "all_reduce f32 max"},
      {"count", usual, call(Collective::all_reduce, DType::f32, ReduceOp::sum, 0, count + 1), "of "},
      {"much larger count", usual, call(Collective::all_reduce, DType::f32, ReduceOp::sum, 0, count * 50 + 50), "of "},
      {"collective", usual, call(Collective::broadcast, DType::f32, ReduceOp::sum, 0, count), "broadcast f32"},
      {"root", call(Collective::broadcast, DType::f32, ReduceOp::sum, 0, count),
       call(Collective::broadcast, DType::f32, ReduceOp::sum, 1, count), "root 1"},
      {"barrier", usual, [](Group g) { g.barrier(), g.barrier(); }, "barrier"},
      {"algorithm", usual, call(Collective::all_reduce, DType::f32, ReduceOp::sum, 0, count, "ring"), "by algorithm"},
      {"network root", call(Collective::broadcast, DType::f32, ReduceOp::sum, 0, count, "binomial"),
       call(Collective::broadcast, DType::f32, ReduceOp::sum, 1, count, "binomial"), "root 1"},
  };
}

TEST(Mistakes, DifferentCallsAreAMismatchOnAllRanks) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{100}, std::size_t{100000}})
    for (const Odd& c : odd_calls(count))
      for (const int odd : {0, 2}) {
        SCOPED_TRACE(std::string(c.name) + ", count " + std::to_string(count) + ", odd rank " + std::to_string(odd));
        const auto messages = all_raise<Mismatch>(3, [&](Group g) { (g.rank() == odd ? c.odd : c.usual)(g); });
        for (const auto& m : messages) EXPECT_TRUE(has(m, c.said)) << m;
      }
}

/// Nobody needs anything of anybody: one rank hands out what no one takes, the others hand in. They find out when they call the next.
TEST(Mistakes, CallsInWhichNobodyWaitsAreComparedByTheNext) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{100}, std::size_t{5000}}) {
    SCOPED_TRACE(count);
    Options staged;
    if (count > 1000) staged.algorithm = "staged";
    const auto messages = all_raise<Mismatch>(3, [&](Group g) {
      std::vector<float> in(count), out(3 * count);
      if (g.rank() == 0)
        g.broadcast(std::span(in), 0, staged);
      else
        g.gather(std::span<const float>(in), std::span(out), 0, staged);
      g.barrier();
      g.barrier();
    });
    for (const auto& m : messages) EXPECT_TRUE(has(m, "broadcast f32") && has(m, "gather f32")) << m;
  }
}

TEST(Mistakes, AMissingCallTimesOutAndNamesTheMissing) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{100000}}) {
    std::atomic<int> late{0};
    spawn_threads(3, [&](Group world) {
      Options o;
      o.timeout = std::chrono::milliseconds(200);
      std::vector<float> x(count);
      if (world.rank() == 1) {
        while (late.load() < 2) std::this_thread::yield();
        // The others had posted their parts before they gave up, so this call may still succeed; the next cannot.
        EXPECT_THROW((world.all_reduce(std::span(x)), world.all_reduce(std::span(x))), Timeout)
            << "the group has failed for all";
        return;
      }
      try {
        world.all_reduce(std::span(x), ReduceOp::sum, o);
        ADD_FAILURE() << "no error";
      } catch (const Timeout& e) {
        EXPECT_EQ(e.missing, std::vector<int>{1}) << e.what();
        EXPECT_TRUE(has(e.what(), "all_reduce f32 sum")) << e.what();
      }
      late++;
    });
  }
}

TEST(Mistakes, ARankThatLeavesIsNamed) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{100000}})
    for (const char* algorithm : {"", "ring"}) {
      spawn_threads(3, [&](Group world) {
        if (world.rank() == 1) return;
        std::vector<float> x(count);
        Options o;
        o.algorithm = algorithm;
        try {
          world.all_reduce(std::span(x), ReduceOp::sum, o);
          ADD_FAILURE() << "no error";
        } catch (const RankFailure& e) {
          EXPECT_EQ(e.rank, 1) << e.what();
        }
      });
    }
}

TEST(Mistakes, AbortEndsWhatIsInFlightEverywhere) {
  const auto messages = all_raise<Aborted>(3, [](Group world) {
    std::vector<float> x(1000);
    if (world.rank() == 2) {
      world.abort("enough");
      world.all_reduce(std::span(x));
    } else {
      world.all_reduce_async(std::span(x)).wait();
    }
  });
  for (const auto& m : messages) EXPECT_TRUE(has(m, "rank 2") && has(m, "enough")) << m;
}

/// The call may come to the group before, amid or after its end.
TEST(Mistakes, AGroupIsDestroyedWhileAnotherThreadWaitsInACall) {
  for (const int count : {1, 1000, 300'000})
    for (int round = 0; round < 10; round++)
      spawn_threads(2, [&](const Group& world) {
        Group group = world.split(0);
        world.barrier();
        if (world.rank() == 1) return world.barrier();  // it never calls
        std::vector<float> x(count);
        std::atomic<bool> begun{false};
        std::thread caller([&] {
          begun = true;
          try {
            group.all_reduce(std::span(x));
            ADD_FAILURE() << "no error";
          } catch (const Aborted&) {
          } catch (const InvalidArgument& e) {
            EXPECT_TRUE(has(e.what(), "after destroy()")) << e.what();
          }
        });
        while (!begun) std::this_thread::yield();
        if (round % 2 != 0)
          std::this_thread::sleep_for(std::chrono::milliseconds(5));  // so that it may be amid the call
        group.abort("on purpose");
        group.destroy();
        caller.join();
        world.barrier();
      });
}

TEST(Mistakes, BadArgumentsAreRefusedBeforeAnythingIsSent) {
  spawn_threads(2, [](Group world) {
    std::vector<float> x(10), y(10);
    const auto message = [&](const Call& call) -> std::string {
      try {
        world.run(call);
      } catch (const InvalidArgument& e) {
        return e.what();
      }
      return "no error";
    };
    Call good;
    good.collective = Collective::all_reduce;
    good.dtype = DType::f32;
    good.input = x.data();
    good.output = y.data();
    good.count = 10;
    const auto with = [&](auto change) {
      Call c = good;
      change(c);
      return message(c);
    };
    EXPECT_TRUE(has(with([](Call& c) { c.count = -1; }), "count is -1"));
    EXPECT_TRUE(has(with([](Call& c) { c.count = std::int64_t{1} << 62; }), "overflow 64 bits"));
    EXPECT_TRUE(has(with([](Call& c) { c.input = nullptr; }), "input is null"));
    EXPECT_TRUE(has(with([](Call& c) { c.output = nullptr; }), "output is null"));
    EXPECT_TRUE(has(with([&](Call& c) { c.output = x.data() + 1; }), "overlap"));
    EXPECT_TRUE(has(with([](Call& c) { c.op = ReduceOp::band; }), "band is not defined for f32"));
    EXPECT_TRUE(
        has(with([](Call& c) { c.op = ReduceOp::avg, c.dtype = DType::boolean; }), "avg is not defined for bool"));
    EXPECT_TRUE(has(with([](Call& c) { c.collective = Collective::broadcast, c.root = 2; }), "root 2 is out of range"));
    EXPECT_TRUE(has(with([](Call& c) { c.options.algorithm = "magic"; }), "no algorithm \"magic\""));
    const std::vector<std::int64_t> wrong{1, 2, 3}, negative{1, -2};
    EXPECT_TRUE(
        has(with([&](Call& c) { c.collective = Collective::all_gather, c.counts = wrong; }), "counts has 3 entries"));
    EXPECT_TRUE(
        has(with([&](Call& c) { c.collective = Collective::all_gather, c.counts = negative; }), "counts[1] is -2"));
    EXPECT_THROW(world.send(std::span<const float>(x), world.rank()), InvalidArgument);
    EXPECT_THROW(world.send(std::span<const float>(x), 2), InvalidArgument);
    EXPECT_THROW(world.recv(std::span(x), 5), InvalidArgument);
    // Nothing of this disturbed the group.
    x.assign(10, 1);
    world.all_reduce(std::span(x));
    EXPECT_EQ(x[0], 2);
    EXPECT_EQ(world.sequence_number(), 1u);
  });
}

TEST(Mistakes, UseAfterDestroy) {
  spawn_threads(2, [](Group world) {
    Group part = world.split(0);
    part.destroy();
    float x = 1;
    EXPECT_THROW(part.all_reduce(std::span(&x, 1)), InvalidArgument);
    world.all_reduce(std::span(&x, 1));
    EXPECT_EQ(x, 2);
    EXPECT_THROW(Group().barrier(), InvalidArgument);
  });
}

TEST(Mistakes, AWorldThatNeverFillsNamesTheMissing) {
  Config config;
  config.init_timeout = std::chrono::milliseconds(300);
  const auto store = make_memory_store();
  std::vector<std::thread> threads;
  for (const int rank : {0, 2})
    threads.emplace_back([&, rank] {
      try {
        Context(config).create_group(store, rank, 4);
        ADD_FAILURE() << "no error";
      } catch (const Timeout& e) {
        EXPECT_EQ(e.missing, (std::vector<int>{1, 3})) << e.what();
      }
    });
  for (auto& t : threads) t.join();
}

TEST(Mistakes, RanksThatWaitForEachOther) {
  const auto receives = [](Group world) {
    int x = 0;
    world.recv(std::as_writable_bytes(std::span(&x, 1)), (world.rank() + 1) % world.size());
  };
  for (const int n : {2, 3})
    for (const std::string& message : all_raise<Mismatch>(n, receives)) {
      EXPECT_TRUE(has(message, "wait for each other: rank 0 (host ")) << message;
      EXPECT_TRUE(has(message, "recv(src=0, tag=0)")) << message;
    }
  const auto either = [](Group world) {
    int x = 0;
    if (world.rank() == 0)
      world.recv(std::as_writable_bytes(std::span(&x, 1)), 1);
    else
      world.barrier();
  };
  for (const std::string& message : all_raise<Mismatch>(2, either))
    EXPECT_TRUE(has(message, "barrier #1 on group")) << message;
}

/// Each rank has a second thread, which has called before, and sends later.
TEST(Mistakes, AnotherThreadMaySend) {
  spawn_threads(2, [](Group world) {
    const int other = 1 - world.rank();
    int x = 0, y = 7;
    Group early = world;
    early.send(std::as_bytes(std::span(&y, 1)), other, 1);
    std::thread sender([&] {
      early.recv(std::as_writable_bytes(std::span(&x, 1)), other, 1);
      std::this_thread::sleep_for(std::chrono::seconds(3));
      early.send(std::as_bytes(std::span(&y, 1)), other);
    });
    int z = 0;
    world.recv(std::as_writable_bytes(std::span(&z, 1)), other);
    sender.join();
    EXPECT_EQ(z, 7);
  });
}

}  // namespace
}  // namespace unisono
