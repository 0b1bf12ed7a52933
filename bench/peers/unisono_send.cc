// One way from rank 0 to rank 1: half of there and back, the median over calls.
//   usage: unisono run -n 2 -- unisono_send SECONDS BYTES...      prints a line of JSON a size, as the other programs here do
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <unisono/unisono.hpp>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

void there_and_back(const unisono::Group& group, std::span<float> data) {
  if (group.rank() == 0) {
    group.send(data, 1);
    group.recv(data, 1);
  } else {
    group.recv(data, 0);
    group.send(data, 0);
  }
}

/// Seconds of each of `calls` calls, appended.
void time_calls(const unisono::Group& group, std::span<float> data, int calls, std::vector<double>& seconds) {
  group.barrier();
  auto start = Clock::now();
  for (int i = 0; i < calls; i++) {
    there_and_back(group, data);
    const auto end = Clock::now();
    seconds.push_back(std::chrono::duration<double>(end - start).count() / 2);
    start = end;
  }
}

/// In portions, as mpi_collective.c: what the ranks say to each other between them is not between any two calls.
double median_seconds(const unisono::Group& group, std::span<float> data, double budget) {
  constexpr int kPortions = 10, kLargestPortion = 2000;
  std::vector<double> seconds;
  time_calls(group, data, 10, seconds);
  std::nth_element(seconds.begin(), seconds.begin() + 5, seconds.end());
  std::int32_t portion = std::clamp(static_cast<int>(budget / kPortions / (2 * seconds[5])), 1, kLargestPortion);
  group.broadcast(std::span(&portion, 1));
  seconds.clear();
  const auto begin = Clock::now();
  for (std::int32_t more = 1; more != 0;) {
    time_calls(group, data, portion, seconds);
    const bool in_time = std::chrono::duration<double>(Clock::now() - begin).count() < budget;
    more = seconds.size() < 10 || (in_time && seconds.size() < std::size_t{kPortions} * kLargestPortion) ? 1 : 0;
    group.broadcast(std::span(&more, 1));
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: unisono_send SECONDS BYTES...\n"), 2;
  const unisono::Group group = unisono::init();
  for (int i = 2; i < argc; i++) {
    const std::size_t bytes = std::strtoull(argv[i], nullptr, 10);
    std::vector<float> data(std::max<std::size_t>(1, bytes / sizeof(float)), 1.0f);
    const double seconds = median_seconds(group, data, std::atof(argv[1]));
    if (group.rank() == 0)
      std::printf("{\"ranks\": %d, \"bytes\": %zu, \"time_us\": %.4f}\n", group.size(), bytes, seconds * 1e6);
  }
}
