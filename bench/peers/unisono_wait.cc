// Ranks that wait in an all_reduce for rank 0, which stays away until somebody opens the fifo to write.
//   usage: unisono run -n RANKS -- unisono_wait FIFO      rank 0 prints "waiting" when it goes
#include <cstdio>
#include <fstream>
#include <unisono/unisono.hpp>

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: unisono_wait FIFO\n"), 2;
  const unisono::Group group = unisono::init();
  double one = 1;
  group.all_reduce(std::span(&one, 1));
  if (group.rank() == 0) {
    std::puts("waiting");
    std::fflush(stdout);
    std::ifstream(argv[1]).get();
  }
  one = 1;
  group.all_reduce(std::span(&one, 1));
  return one == group.size() ? 0 : 1;
}
