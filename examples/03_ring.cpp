// A ring all-reduce written by hand on isend and irecv, and the library's beside it.
//
// Each rank's array is cut into as many chunks as there are ranks. In n - 1 steps every chunk travels round the ring and
// collects a contribution at each stop; in n - 1 more the finished chunks travel round again.
//
// unisono run -n 4 -- build/release/examples/03_ring

#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <span>
#include <unisono/unisono.hpp>
#include <vector>

namespace {

constexpr std::size_t kCount = 1'000'000;

/// Replaces x by the sum over all ranks.
void ring_all_reduce(const unisono::Group& world, std::span<double> x) {
  const int n = world.size(), rank = world.rank();
  if (n == 1) return;  // sending to oneself is an error
  const int left = (rank + n - 1) % n, right = (rank + 1) % n;
  const auto chunk = [&](int i) {
    const auto k = static_cast<std::size_t>((i % n + n) % n), size = static_cast<std::size_t>(n);
    const std::size_t begin = x.size() * k / size, end = x.size() * (k + 1) / size;
    return x.subspan(begin, end - begin);
  };
  std::vector<double> inbox(x.size() / static_cast<std::size_t>(n) + 1);
  for (int step = 0; step < n - 1; step++) {  // reduce-scatter: afterwards rank r holds the finished chunk r + 1
    const auto outgoing = chunk(rank - step), incoming = chunk(rank - step - 1);
    const auto received = world.irecv(std::as_writable_bytes(std::span(inbox).first(incoming.size())), left, step);
    const auto sent = world.isend(std::as_bytes(outgoing), right, step);
    received.wait();
    for (std::size_t i = 0; i < incoming.size(); i++) incoming[i] += inbox[i];
    sent.wait();
  }
  for (int step = 0; step < n - 1; step++) {  // all-gather
    const auto received = world.irecv(std::as_writable_bytes(chunk(rank - step)), left, n + step);
    const auto sent = world.isend(std::as_bytes(chunk(rank - step + 1)), right, n + step);
    received.wait();
    sent.wait();
  }
}

}  // namespace

int main() {
  const unisono::Group world = unisono::init();
  std::vector<double> by_hand(kCount);
  std::mt19937_64 random(static_cast<unsigned>(world.rank()));
  for (double& x : by_hand) x = std::normal_distribution<double>()(random);
  std::vector<double> by_library = by_hand;

  using Clock = std::chrono::steady_clock;
  world.barrier();
  const auto start = Clock::now();
  ring_all_reduce(world, by_hand);
  const auto middle = Clock::now();
  world.all_reduce(std::span(by_library));
  const auto end = Clock::now();

  for (std::size_t i = 0; i < kCount; i++) {
    if (std::abs(by_hand[i] - by_library[i]) < 1e-9) continue;
    std::fprintf(stderr, "element %zu is %g, not %g\n", i, by_hand[i], by_library[i]);
    return 1;
  }
  const auto ms = [](auto d) { return std::chrono::duration<double, std::milli>(d).count(); };
  if (world.rank() == 0)
    std::printf("%zu numbers on %d ranks: equal; ring by hand %.2f ms, all_reduce %.2f ms\n", kCount, world.size(),
                ms(middle - start), ms(end - middle));
}
