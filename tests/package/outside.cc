// What a user's program does: join, reduce, and catch a typed error that was thrown inside the library.
#include <cstdio>
#include <numeric>
#include <vector>

#include "unisono/unisono.hpp"

int main() {
  unisono::Group world = unisono::init();
  const int n = world.size();

  std::vector<double> x(1000);
  std::iota(x.begin(), x.end(), world.rank());
  world.all_reduce(std::span(x));
  const double ranks = n * (n - 1) / 2.0;
  for (std::size_t i = 0; i < x.size(); i++) {
    if (x[i] != static_cast<double>(i) * n + ranks) {
      std::printf("rank %d: x[%zu] is %g\n", world.rank(), i, x[i]);
      return 1;
    }
  }

  try {
    world.broadcast(std::span(x), n);  // there is no such root
    std::printf("rank %d: a root out of range was accepted\n", world.rank());
    return 1;
  } catch (const unisono::InvalidArgument&) {
  }

  world.barrier();
  std::printf("outside: %d of %d ok, unisono %s\n", world.rank(), n, unisono::version());
  return 0;
}
