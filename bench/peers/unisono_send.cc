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

double median_seconds(const unisono::Group& group, std::span<float> data, double budget) {
  for (int i = 0; i < 10; i++) there_and_back(group, data);
  std::vector<double> seconds;
  const auto begin = Clock::now();
  for (std::int32_t more = 1; more != 0;) {
    for (int i = 0; i < 10; i++) {
      const auto start = Clock::now();
      there_and_back(group, data);
      seconds.push_back(std::chrono::duration<double>(Clock::now() - start).count() / 2);
    }
    more = std::chrono::duration<double>(Clock::now() - begin).count() < budget ? 1 : 0;
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
    std::vector<float> data(std::max<std::size_t>(1, bytes / sizeof(float)));
    const double seconds = median_seconds(group, data, std::atof(argv[1]));
    if (group.rank() == 0)
      std::printf("{\"ranks\": %d, \"bytes\": %zu, \"time_us\": %.4f}\n", group.size(), bytes, seconds * 1e6);
  }
}
