/// Reduction and copy kernels: bytes read per second, for every set that this processor runs.
///   kernels_bench --benchmark_filter='reduce/avx512/f32/sum'
/// The sizes are of one source: in L1, in L2, and in memory.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/kernel_set.h"

namespace unisono::kernels {
namespace {

constexpr std::int64_t kSizes[] = {8, 64, 2 << 10, 64 << 10, 16 << 20};

/// k sources of ordinary small numbers and a destination.
struct Operands {
  Operands(DType dtype, std::size_t k, std::size_t bytes) : buffers(k, std::vector<char>(bytes)), dst(bytes) {
    for (auto& buffer : buffers) {
      for (std::size_t at = 0; at + size_of(dtype) <= bytes; at += size_of(dtype)) {
        const float one = 1.0f;
        if (dtype == DType::f32) std::memcpy(buffer.data() + at, &one, sizeof(one));
      }
      src.push_back(buffer.data());
    }
  }
  std::vector<std::vector<char>> buffers;
  std::vector<char> dst;
  std::vector<const void*> src;
};

void reduce(benchmark::State& state, const KernelSet& set, Reduce what) {
  const auto k = static_cast<std::size_t>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  Operands o(what.dtype, k, bytes);
  for (auto _ : state) {
    set.reduce(what, o.dst.data(), nullptr, o.src, bytes / size_of(what.dtype));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>((k + 1) * bytes));
}

/// The plainest loop that is right for aligned f32 sums of a k known at compile time: what the kernels are held
/// against.
typedef float Line __attribute__((vector_size(64), aligned(4), may_alias));
template <int k>
[[gnu::target("avx512f,prefer-vector-width=512")]] void bare_sum(float* dst, const void* const* src,
                                                                 std::size_t count) {
  for (std::size_t i = 0; i < count; i += 16) {
    Line s = *reinterpret_cast<const Line*>(static_cast<const float*>(src[0]) + i);
    for (int q = 1; q < k; q++) s += *reinterpret_cast<const Line*>(static_cast<const float*>(src[q]) + i);
    *reinterpret_cast<Line*>(dst + i) = s;
  }
}
template <int k>
void bare(benchmark::State& state) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  Operands o(DType::f32, k, bytes);
  for (auto _ : state) {
    bare_sum<k>(reinterpret_cast<float*>(o.dst.data()), o.src.data(), bytes / 4);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>((k + 1) * bytes));
}

void copy_bench(benchmark::State& state, const KernelSet& set, bool around, bool far) {
  const auto bytes = static_cast<std::size_t>(state.range(0));
  std::vector<char> in(bytes, 1), out(bytes, 2);
  for (auto _ : state) {
    set.copy(out.data(), in.data(), bytes, around, far);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(2 * bytes));
}

void add_set(const KernelSet& set) {
  for (int t = 0; t < kDTypes; t++)
    for (int o = 0; o < kReduceOps; o++) {
      const auto dtype = static_cast<DType>(t);
      const auto op = static_cast<ReduceOp>(o);
      if (!supports(op, dtype)) continue;
      const std::string name =
          "reduce/" + std::string(set.name) + "/" + std::string(name_of(dtype)) + "/" + std::string(name_of(op));
      const Reduce what{dtype, op, op == ReduceOp::avg ? 3 : 1};
      auto* b = benchmark::RegisterBenchmark(name.c_str(), [set, what](benchmark::State& s) { reduce(s, set, what); });
      b->ArgNames({"k", "bytes"});
      for (const std::int64_t k : {2, 4, 8, 16, 64})
        for (const std::int64_t bytes : kSizes) b->Args({k, bytes});
    }
}

void add_copy(const KernelSet& set, const char* way, bool around, bool far) {
  const std::string name = "copy/" + std::string(set.name) + "/" + way;
  auto* b = benchmark::RegisterBenchmark(name.c_str(),
                                         [set, around, far](benchmark::State& s) { copy_bench(s, set, around, far); });
  for (const std::int64_t bytes : {4 << 10, 32 << 10, 256 << 10, 4 << 20, 64 << 20}) b->Arg(bytes);
}

void add_all() {
  for (const KernelSet& set : kernel_sets()) {
    add_set(set);
    add_copy(set, "plain", false, false);
    add_copy(set, "around", true, false);
    add_copy(set, "places", true, true);
  }
  if (__builtin_cpu_supports("avx512f"))
    for (auto* b : {benchmark::RegisterBenchmark("bare/f32/sum/k:2", bare<2>),
                    benchmark::RegisterBenchmark("bare/f32/sum/k:4", bare<4>),
                    benchmark::RegisterBenchmark("bare/f32/sum/k:8", bare<8>)})
      for (const std::int64_t bytes : kSizes) b->Arg(bytes);
}

}  // namespace
}  // namespace unisono::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  unisono::kernels::add_all();
  benchmark::RunSpecifiedBenchmarks();
}
