// Hello: who am I, and what do the others say?
//
// unisono run -n 4 -- build/release/examples/01_hello     (or without a launcher: a world of one)

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <unisono/unisono.hpp>
#include <vector>

int main() {
  const unisono::Group world = unisono::init();
  const std::int64_t me = getpid();
  std::printf("rank %d of %d, process %d, over %s\n", world.rank(), world.size(), getpid(),
              std::string(world.transport()).c_str());
  std::fflush(stdout);

  // Every rank learns every rank's process id: the i-th entry is rank i's.
  std::vector<std::int64_t> pids(static_cast<std::size_t>(world.size()));
  world.all_gather(std::span(&me, 1), std::span(pids));
  if (pids[static_cast<std::size_t>(world.rank())] != me) return 1;

  world.barrier();
  if (world.rank() != 0) return 0;
  std::printf("all here:");
  for (std::size_t rank = 0; rank < pids.size(); rank++)
    std::printf(" %zu: %lld", rank, static_cast<long long>(pids[rank]));
  std::printf("\n");
}
