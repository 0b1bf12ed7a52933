// Overlap: start operations, compute, and wait when the results are needed.
//
// The asynchronous form returns a Work at once; a thread of the library carries the operation on. Several may be in flight,
// as long as all ranks start them in the same order. Do not touch memory before its Work is done.
//
// unisono run -n 2 -- build/release/examples/05_overlap

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <unisono/unisono.hpp>
#include <vector>

namespace {

constexpr std::size_t kChunks = 8, kCount = 250'000;

/// Keeps this rank busy for a little while.
double compute() {
  double sum = 0;
  for (int i = 1; i < 100'000; i++) sum += std::sin(i);
  return sum;
}

}  // namespace

int main() {
  using Clock = std::chrono::steady_clock;
  const unisono::Group world = unisono::init();
  const double expected = world.size() * (world.size() + 1) / 2.0;
  std::vector<std::vector<double>> chunks;
  volatile double sink = 0;
  bool right = true;

  const auto timed = [&](auto run) {
    chunks.assign(kChunks, std::vector<double>(kCount, world.rank() + 1.0));
    world.barrier();
    const auto start = Clock::now();
    run();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    for (const auto& chunk : chunks)
      right &= std::all_of(chunk.begin(), chunk.end(), [&](double x) { return x == expected; });
    return ms;
  };
  const auto in_turn = [&] {
    for (auto& chunk : chunks) {
      world.all_reduce(std::span(chunk));
      sink = sink + compute();
    }
  };
  const auto overlapped = [&] {
    std::vector<unisono::Work> works;
    for (auto& chunk : chunks) {
      works.push_back(world.all_reduce_async(std::span(chunk)));
      sink = sink + compute();
    }
    for (const auto& work : works) work.wait();
  };

  timed(in_turn);  // warm up
  const double one = timed(in_turn), two = timed(overlapped);

  // A Work can be asked, and waited for with a timeout: the operation itself goes on.
  const unisono::Work work = world.all_reduce_async(std::span(chunks[0]));
  work.wait(std::chrono::seconds(30));
  right &= work.done() && !work.error();

  if (!right) std::fprintf(stderr, "rank %d: wrong result\n", world.rank());
  if (world.rank() == 0)
    std::printf("%zu all_reduces of %zu numbers and as many computations: in turn %.1f ms, overlapped %.1f ms\n",
                kChunks, kCount, one, two);
  return right ? 0 : 1;
}
