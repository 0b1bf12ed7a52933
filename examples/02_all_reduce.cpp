// All-reduce and its operations: combine arrays of all ranks, element by element.
//
// unisono run -n 4 -- build/release/examples/02_all_reduce

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <unisono/unisono.hpp>
#include <vector>

using unisono::ReduceOp;

namespace {

void expect(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "wrong result: %s\n", what);
  std::exit(1);
}

}  // namespace

int main() {
  const unisono::Group world = unisono::init();
  const int n = world.size();
  const double mine = world.rank() + 1;
  const auto show = [&](const char* op, double x, double expected) {
    expect(std::abs(x - expected) < 1e-9 * expected, op);
    if (world.rank() == 0) std::printf("%-24s%g\n", op, x);
  };

  // In place. The default is the sum: values grow with the number of ranks; for the mean say so.
  std::vector<double> x(1000, mine);
  world.all_reduce(std::span(x));
  show("sum", x[0], n * (n + 1) / 2.0);

  // Or into another array: the input stays as it is.
  const std::vector<double> input(1000, mine);
  world.all_reduce(std::span(input), std::span(x), ReduceOp::avg);
  show("avg", x[999], (n + 1) / 2.0);
  world.all_reduce(std::span(input), std::span(x), ReduceOp::min);
  show("min", x[500], 1);
  world.all_reduce(std::span(input), std::span(x), ReduceOp::max);
  show("max", x[500], n);
  world.all_reduce(std::span(input), std::span(x), ReduceOp::product);
  show("product", x[1], std::tgamma(n + 1));

  // Bits, of integers and bool.
  std::uint32_t bits = 1u << world.rank();
  world.all_reduce(std::span(&bits, 1), ReduceOp::bor);
  show("bor of 1 << rank", bits, std::pow(2, n) - 1);

  // Only one rank gets it: reduce leaves the others' arrays alone.
  world.reduce(std::span(input), std::span(x), n - 1);
  if (world.rank() == n - 1) expect(x[0] == n * (n + 1) / 2.0, "reduce");

  // What makes no sense is an error before anything is sent.
  try {
    world.all_reduce(std::span(x), ReduceOp::bor);
    expect(false, "the bits of floats were combined");
  } catch (const unisono::InvalidArgument& error) {
    if (world.rank() == 0) std::printf("%-24s%s\n", "bor of floats:", error.what());
  }
}
