/// What a group keeps of its calls from one to the next must not show, but for what it saves.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "group/calls_on_memory.h"
#include "unisono/unisono.hpp"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kCountsAllocations = false;  // the sanitizers have an operator new of their own
static std::size_t allocations() { return 0; }
#else
constexpr bool kCountsAllocations = true;
static thread_local std::size_t allocated = 0;
static std::size_t allocations() { return allocated; }

void* operator new(std::size_t bytes) {
  allocated++;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace unisono {
namespace {

TEST(RepeatedCalls, AllocateNothing) {
  if (!kCountsAllocations) GTEST_SKIP() << "operator new is the sanitizer's";
  constexpr int kCalls = 200;
  for (const std::size_t bytes : {1u << 10, 64u << 10, 256u << 10})
    for (const bool shared : {false, true})
      spawn_threads(2, [&](const Group& group) {
        const std::size_t count = bytes / sizeof(float);
        std::vector<float> input(count), output(count);
        const Buffer buffer = group.allocate(2 * bytes);
        float* const memory = reinterpret_cast<float*>(buffer.data());
        const std::span<const float> in =
            shared ? std::span<const float>(memory, count) : std::span<const float>(input);
        const std::span<float> out = shared ? std::span(memory + count, count) : std::span(output);
        for (int i = 0; i < 20; i++) group.all_reduce(in, out);  // a contest tries both sides
        const std::size_t before = allocations();
        for (int i = 0; i < kCalls; i++) group.all_reduce(in, out);
        // The list of what lies on a stage takes a new piece every 21 slices; who waits for long looks for the missing, with a list.
        EXPECT_LT(allocations() - before, kCalls) << bytes << " bytes, " << (shared ? "shared" : "ordinary");
      });
}

/// One random call, the same on all ranks that draw from the same seed; checked.
class AnyCall {
 public:
  AnyCall(const Group& group, std::uint64_t seed, std::size_t room)
      : group_(group), random_(seed), shared_(group.allocate(2 * room)), own_(2 * room), room_(room) {}

  void run() {
    const int n = group_.size(), r = group_.rank();
    const bool wide = draw(2) == 0, in_place = draw(3) == 0, shared = draw(3) == 0;
    std::byte* const memory = shared ? shared_.data() : own_.data();
    const auto most = static_cast<std::int64_t>(room_ / 8) / n;
    const std::int64_t count = draw(4) == 0 ? most : draw(static_cast<int>(most)) + 1;
    const int root = draw(n);
    switch (draw(5)) {
      case 0:
        return wide ? reduce<std::int64_t>(memory, count, in_place) : reduce<std::int32_t>(memory, count, in_place);
      case 1:
        return gather(memory, std::vector<std::int64_t>(static_cast<std::size_t>(n), count), false);
      case 2: {  // counts that are a matter of the ranks: often the same ones in another order
        std::vector<std::int64_t> counts(static_cast<std::size_t>(n), count / 2);
        counts[static_cast<std::size_t>(root)] = count;
        return gather(memory, counts, true);
      }
      case 3:
        return exchange(memory, std::min<std::int64_t>(count, most / 2), root);
      default: {
        auto* const data = reinterpret_cast<std::int64_t*>(memory);
        std::fill_n(data, count, r == root ? seal() : -1);
        group_.broadcast(std::span(data, static_cast<std::size_t>(count)), root);
        for (std::int64_t i = 0; i < count; i++) ASSERT_EQ(data[i], seal());
        calls_++;
      }
    }
  }

 private:
  int draw(int below) { return static_cast<int>(random_() % static_cast<std::uint64_t>(below)); }
  std::int64_t seal() const { return 1000 + calls_; }

  template <class T>
  void reduce(std::byte* memory, std::int64_t count, bool in_place) {
    const auto size = static_cast<std::size_t>(count);
    const std::span<T> in(reinterpret_cast<T*>(memory), size);
    const std::span<T> out = in_place ? in : std::span<T>(reinterpret_cast<T*>(memory + room_), size);
    const bool largest = draw(2) == 0;
    std::fill(in.begin(), in.end(), static_cast<T>(seal() + group_.rank()));
    group_.all_reduce(std::span<const T>(in), out, largest ? ReduceOp::max : ReduceOp::sum);
    const std::int64_t n = group_.size();
    const std::int64_t expected = largest ? seal() + n - 1 : n * seal() + n * (n - 1) / 2;
    for (const T x : out) ASSERT_EQ(x, static_cast<T>(expected));
    calls_++;
  }
  void gather(std::byte* memory, const std::vector<std::int64_t>& counts, bool uneven) {
    const auto r = static_cast<std::size_t>(group_.rank());
    auto* const in = reinterpret_cast<std::int64_t*>(memory);
    auto* out = reinterpret_cast<std::int64_t*>(memory + room_);
    std::fill_n(in, counts[r], seal() + group_.rank());
    Call call{Collective::all_gather, in, out, uneven ? 0 : counts[r], DType::i64};
    if (uneven) call.counts = counts;
    group_.run(call);
    for (std::size_t q = 0; q < counts.size(); q++)
      for (std::int64_t i = 0; i < counts[q]; i++) ASSERT_EQ(*out++, seal() + static_cast<std::int64_t>(q));
    calls_++;
  }
  /// all_to_all with counts of which the signature knows nothing.
  void exchange(std::byte* memory, std::int64_t count, int favourite) {
    const int n = group_.size(), r = group_.rank();
    const auto between = [&](int from, int to) { return to == favourite ? count : (from + to) % 3; };
    std::vector<std::int64_t> send, receive;
    auto* const in = reinterpret_cast<std::int64_t*>(memory);
    auto* out = reinterpret_cast<std::int64_t*>(memory + room_);
    auto* next = in;
    for (int q = 0; q < n; q++) {
      send.push_back(between(r, q));
      receive.push_back(between(q, r));
      next = std::fill_n(next, send.back(), seal() * 100 + r * 10 + q);
    }
    Call call{Collective::all_to_all, in, out, 0, DType::i64};
    call.counts = send;
    call.output_counts = receive;
    group_.run(call);
    for (int q = 0; q < n; q++)
      for (std::int64_t i = 0; i < receive[static_cast<std::size_t>(q)]; i++)
        ASSERT_EQ(*out++, seal() * 100 + q * 10 + r);
    calls_++;
  }

  const Group& group_;
  std::mt19937_64 random_;
  Buffer shared_;
  std::vector<std::byte> own_;
  std::size_t room_;
  std::int64_t calls_ = 0;
};

TEST(RepeatedCalls, OfManyKindsInTurn) {
  for (const int ranks : {1, 2, 3})
    spawn_threads(ranks, [](const Group& group) {
      AnyCall any(group, 42, 600 << 10);
      for (int i = 0; i < (unisono::test::kSanitized ? 150 : 400); i++) {
        any.run();
        if (testing::Test::HasFatalFailure()) FAIL() << "call " << i << " of seed 42";
      }
    });
}

TEST(RepeatedCalls, CountsInAnotherOrder) {
  spawn_threads(2, [](const Group& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    for (int i = 0; i < 20; i++) {
      const std::vector<std::int64_t> counts =
          i % 2 == 0 ? std::vector<std::int64_t>{1, 5000} : std::vector<std::int64_t>{5000, 1};
      std::vector<std::int32_t> in(static_cast<std::size_t>(counts[r]), group.rank()), out(5001, -1);
      Call call{Collective::all_gather, in.data(), out.data(), 0, DType::i32};
      call.counts = counts;
      group.run(call);
      EXPECT_EQ(out[static_cast<std::size_t>(counts[0]) - 1], 0);
      EXPECT_EQ(out[static_cast<std::size_t>(counts[0])], 1);
    }
  });
}

/// The caller of a blocking call runs it by itself; what another thread of the rank calls meanwhile comes behind it, and soon.
TEST(RepeatedCalls, OthersQueueUpBehindOneThatItsCallerRuns) {
  constexpr int kRounds = 50;
  spawn_threads(2, [](const Group& group) {
    std::vector<std::int64_t> first(4000), second(4000), third(4000);
    for (int i = 0; i < kRounds; i++) {
      for (auto* data : {&first, &second, &third}) std::fill(data->begin(), data->end(), i);
      const std::uint64_t before = group.sequence_number();
      std::atomic<bool> blocked{false};
      std::thread other;
      if (group.rank() == 0) {
        other = std::thread([&] {
          while (group.sequence_number() == before) std::this_thread::yield();
          const Work work = group.all_reduce_async(std::span(second));
          group.all_reduce(std::span(third));
          work.wait();
        });
      } else if (i % 2 == 0) {
        std::this_thread::yield();
      }
      group.all_reduce(std::span(first));
      if (group.rank() == 1) {
        group.all_reduce(std::span(second));
        group.all_reduce(std::span(third));
      } else {
        other.join();
      }
      for (auto* data : {&first, &second, &third}) ASSERT_EQ(data->back(), 2 * i) << "round " << i;
    }
  });
}

TEST(RepeatedCalls, DestroyWaitsForOneThatItsCallerRuns) {
  spawn_threads(2, [](const Group& world) {
    for (int i = 0; i < 20; i++) {
      Group group = world.split(0);
      std::vector<std::int64_t> data(4000, world.rank());
      std::thread other;
      if (world.rank() == 0) {
        other = std::thread([&world, group]() mutable {
          while (group.sequence_number() == 0) std::this_thread::yield();
          world.barrier();
          group.destroy();
        });
      } else {
        world.barrier();  // rank 0 is in the call, and about to destroy the group
        for (int k = 0; k < 10 * i; k++) std::this_thread::yield();
      }
      group.all_reduce(std::span(data));
      EXPECT_EQ(data.back(), 1);
      if (other.joinable()) other.join();
    }
  });
}

}  // namespace
}  // namespace unisono
