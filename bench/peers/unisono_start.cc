// When this rank has done its first all_reduce, in seconds of CLOCK_MONOTONIC.
//   usage: unisono run -n RANKS -- unisono_start      each rank prints a line of JSON
#include <cstdio>
#include <ctime>
#include <unisono/unisono.hpp>

int main() {
  const unisono::Group group = unisono::init();
  double one = 1;
  group.all_reduce(std::span(&one, 1));
  std::timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  std::printf("{\"end\": %.9f}\n", static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec));
  return one == group.size() ? 0 : 1;
}
