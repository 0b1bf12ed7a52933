// Somebody else's program: how often threads that only compute get round in so many seconds.
//   usage: neighbour SECONDS THREADS      prints a line of JSON
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kPass = 100'000;  // steps between two looks at the clock, some 100 us

/// Steps that each need the one before, so that neither the compiler nor the processor can take two at once.
std::uint64_t pass(std::uint64_t x) {
  for (std::uint64_t i = 0; i < kPass; ++i) x = x * 6364136223846793005U + 1442695040888963407U;
  return x;
}

struct alignas(64) Count {
  std::uint64_t passes = 0, state = 1;
};

void compute_until(Clock::time_point end, Count& count) {
  for (; Clock::now() < end; ++count.passes) count.state = pass(count.state);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: neighbour SECONDS THREADS\n"), 2;
  std::vector<Count> counts(static_cast<std::size_t>(std::atoi(argv[2])));
  const auto end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::atof(argv[1])));
  std::vector<std::thread> threads;
  for (Count& count : counts) threads.emplace_back(compute_until, end, std::ref(count));
  for (std::thread& thread : threads) thread.join();
  std::uint64_t passes = 0, states = 0;
  for (const Count& count : counts) passes += count.passes, states += count.state;
  std::printf("{\"passes\": %llu, \"states\": %llu}\n", static_cast<unsigned long long>(passes),
              static_cast<unsigned long long>(states));
}
