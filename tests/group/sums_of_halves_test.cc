/// f16 and bf16 added up over messages: as if all were added in f32 and rounded once, whatever the
/// algorithm.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "group/calls_on_memory.h"
#include "kernels/kernels.h"
#include "unisono/unisono.hpp"

namespace unisono {
namespace {

std::vector<std::uint16_t> operand(int rank, std::size_t count, DType half) {
  std::mt19937 random(static_cast<unsigned>(rank) * 77 + 5);
  std::normal_distribution<float> normal(0, 4);
  std::vector<std::uint16_t> x(count);
  for (auto& h : x) h = half == DType::f16 ? kernels::f32_to_f16(normal(random)) : kernels::f32_to_bf16(normal(random));
  return x;
}

/// How far a result may be from the exact one: half a unit in its last place, and what f32 adds.
double most_wrong(double exact, double size, DType half) {
  const int digits = half == DType::f16 ? 11 : 8;
  return std::ldexp(1.0, std::ilogb(std::max(std::abs(exact), 1e-4)) - digits) + 1e-6 * size;
}

struct Kind {
  Collective collective;
  std::string algorithm;
};

class SumsOfHalves : public testing::TestWithParam<Kind> {};

TEST_P(SumsOfHalves, AreRoundedOnce) {
  const auto& [collective, algorithm] = GetParam();
  for (const int n : test::kSanitized ? std::vector{3} : std::vector{3, 4, 5, 8})
    for (const DType half : {DType::f16, DType::bf16})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg})
        for (const std::size_t each :
             test::kSanitized ? std::vector<std::size_t>{301} : std::vector<std::size_t>{3, 100'001}) {
          const bool scattered = collective == Collective::reduce_scatter;
          const std::size_t count = scattered ? each * static_cast<std::size_t>(n) : each;
          std::vector<std::vector<std::uint16_t>> operands;
          for (int r = 0; r < n; r++) operands.push_back(operand(r, count, half));
          spawn_threads(n, [&](Group world) {
            std::vector<std::uint16_t> out(each, 0);
            const std::size_t from = scattered ? each * static_cast<std::size_t>(world.rank()) : 0;
            Call call;
            call.collective = collective;
            call.dtype = half;
            call.op = op;
            call.root = 1;
            call.input = operands[static_cast<std::size_t>(world.rank())].data();
            call.output = out.data();
            call.count = static_cast<std::int64_t>(each);
            call.options.algorithm = algorithm;
            world.run(call);
            if (collective == Collective::reduce && world.rank() != 1) return;
            for (std::size_t i = 0; i < each; i++) {
              double exact = 0, size = 0;
              for (const auto& x : operands) {
                const double value =
                    half == DType::f16 ? kernels::f16_to_f32(x[from + i]) : kernels::bf16_to_f32(x[from + i]);
                exact += value, size += std::abs(value);
              }
              if (op == ReduceOp::avg) exact /= n;
              const double got = half == DType::f16 ? kernels::f16_to_f32(out[i]) : kernels::bf16_to_f32(out[i]);
              ASSERT_LE(std::abs(got - exact), most_wrong(exact, size, half)) << i << " of " << each << " among " << n;
            }
          });
        }
}

INSTANTIATE_TEST_SUITE_P(
    All, SumsOfHalves,
    testing::Values(Kind{Collective::all_reduce, "ring"}, Kind{Collective::all_reduce, "binomial"},
                    Kind{Collective::all_reduce, "recursive_doubling"}, Kind{Collective::all_reduce, "circulant"},
                    Kind{Collective::all_reduce, "direct"}, Kind{Collective::reduce, "binomial"},
                    Kind{Collective::reduce, "reduce_scatter_gather"}, Kind{Collective::reduce_scatter, "circulant"},
                    Kind{Collective::reduce_scatter, "ring"}),
    [](const auto& test) { return std::string(name_of(test.param.collective)) + "_" + test.param.algorithm; });

}  // namespace
}  // namespace unisono
