#include "cli/bench/values.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

namespace unisono::cli {

namespace {

/// f16 and bf16 of an integer that they hold exactly (up to 2048 and 256).
struct F16 {
  explicit F16(std::int64_t v) {
    const auto f = std::bit_cast<std::uint32_t>(static_cast<float>(v));
    bits = static_cast<std::uint16_t>(v == 0 ? 0 : (f >> 16 & 0x8000) | (((f & 0x7fffffff) - (112u << 23)) >> 13));
  }
  std::uint16_t bits;
};
struct Bf16 {
  explicit Bf16(std::int64_t v)
      : bits(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(v)) >> 16)) {}
  std::uint16_t bits;
};
struct Bool {
  explicit Bool(std::int64_t v) : bits(v != 0) {}
  std::uint8_t bits;
};

/// Integers as complex numbers.
template <class T>
struct Complex {
  explicit Complex(std::int64_t v) : re(static_cast<T>(v)) {}
  T re, im = 0;
};

template <class F>
auto with_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f16:
      return f.template operator()<F16>();
    case DType::bf16:
      return f.template operator()<Bf16>();
    case DType::f32:
      return f.template operator()<float>();
    case DType::f64:
      return f.template operator()<double>();
    case DType::i8:
      return f.template operator()<std::int8_t>();
    case DType::i16:
      return f.template operator()<std::int16_t>();
    case DType::i32:
      return f.template operator()<std::int32_t>();
    case DType::i64:
      return f.template operator()<std::int64_t>();
    case DType::u8:
      return f.template operator()<std::uint8_t>();
    case DType::u16:
      return f.template operator()<std::uint16_t>();
    case DType::u32:
      return f.template operator()<std::uint32_t>();
    case DType::u64:
      return f.template operator()<std::uint64_t>();
    case DType::c64:
      return f.template operator()<Complex<float>>();
    case DType::c128:
      return f.template operator()<Complex<double>>();
    case DType::boolean:
      break;
  }
  return f.template operator()<Bool>();
}

constexpr bool is_integer(DType dtype) noexcept { return dtype >= DType::i8 && dtype <= DType::u64; }

/// As a sum of that type comes out, which wraps if it is an integer.
std::int64_t wrapped(DType dtype, std::int64_t v) {
  return with_type(dtype, [&]<class T>() -> std::int64_t {
    if constexpr (std::is_integral_v<T>) return static_cast<std::int64_t>(static_cast<T>(v));
    return v;
  });
}

/// For a boolean every op is one of three.
ReduceOp op_of(const Problem& p) {
  if (p.dtype != DType::boolean) return p.op;
  if (p.op == ReduceOp::sum || p.op == ReduceOp::max) return ReduceOp::bor;
  return p.op == ReduceOp::product || p.op == ReduceOp::min ? ReduceOp::band : p.op;
}

/// Element j of rank's input. Results tell when a rank is missing: for each element one rank,
/// another one from element to element, decides it (none for one element in size + 1). Sums stay
/// within 256, the last integer that bf16 surely holds, up to 256 ranks; integers may wrap.
std::int64_t value(const Problem& p, int rank, std::int64_t j) {
  const bool boolean = p.dtype == DType::boolean;
  if (!reduces(p.collective)) return (rank * 31 + j * 7 + j / 251) % (boolean ? 2 : 101);
  const bool decides = (rank + j) % (p.size + 1) == 0;
  const std::int64_t bit = boolean ? 1 : 1 << j % 7;
  const std::int64_t all = boolean ? 1 : 0x7f;
  switch (op_of(p)) {
    case ReduceOp::sum:
      return (rank + j) % std::clamp(256 / p.size + 1, 2, 8);
    // The mean is an integer, and stops being one when a rank is missing or counted twice. Of
    // integers it is truncated: it changes for even elements when a rank is missing, for odd ones
    // when a rank is counted twice.
    case ReduceOp::avg:
      if (is_integer(p.dtype)) return j % 2 == 1 && rank == j / 2 % p.size ? p.size : 1;
      return j % 2 + 1 + (p.size > 1 && rank == 0) - (p.size > 1 && rank == p.size - 1);
    case ReduceOp::product:
      return decides ? 2 : 1;
    case ReduceOp::min:
      return 5 + j % 3 - (decides ? 4 : 0);
    case ReduceOp::max:
      return 5 + j % 3 + (decides ? 4 : 0);
    case ReduceOp::band:
      return decides ? all & ~bit : all;
    case ReduceOp::bor:
      return decides ? bit : 0;
    case ReduceOp::bxor:
      return (rank * 13 + j * 7) & all;
  }
  return 0;
}

std::int64_t combine(ReduceOp op, std::int64_t a, std::int64_t b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return a + b;
    case ReduceOp::product:
      return a * b;
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::band:
      return a & b;
    case ReduceOp::bor:
      return a | b;
    case ReduceOp::bxor:
      return a ^ b;
  }
  return a;
}

std::int64_t reduced(const Problem& p, std::int64_t j) {
  std::int64_t result = value(p, 0, j);
  for (int q = 1; q < p.size; q++) result = combine(op_of(p), result, value(p, q, j));
  return p.op == ReduceOp::avg ? wrapped(p.dtype, result) / p.size : result;
}

/// Element j of what `rank` should get.
std::int64_t expected(const Problem& p, int rank, std::int64_t j) {
  switch (p.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
      return reduced(p, j);
    case Collective::reduce_scatter:
      return reduced(p, rank * p.count + j);
    case Collective::broadcast:
      return value(p, p.root, j);
    case Collective::all_gather:
    case Collective::gather:
      return value(p, static_cast<int>(j / p.count), j % p.count);
    case Collective::scatter:
      return value(p, p.root, rank * p.count + j);
    case Collective::all_to_all:
      return value(p, static_cast<int>(j / p.count), rank * p.count + j % p.count);
    case Collective::barrier:
      break;
  }
  return 0;
}

template <class F>
std::int64_t count_wrong(DType dtype, std::int64_t elements, const void* data, const F& element) {
  return with_type(dtype, [&]<class T>() {
    std::int64_t wrong = 0;
    for (std::int64_t j = 0; j < elements; j++) {
      const T right(static_cast<T>(element(j)));
      // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): to the last bit is what is meant
      wrong += std::memcmp(static_cast<const char*>(data) + j * static_cast<std::int64_t>(sizeof(T)), &right,
                           sizeof(T)) != 0;
    }
    return wrong;
  });
}

bool input_has_blocks(Collective c) {
  return c == Collective::reduce_scatter || c == Collective::scatter || c == Collective::all_to_all;
}
bool output_has_blocks(Collective c) {
  return c == Collective::all_gather || c == Collective::gather || c == Collective::all_to_all;
}

}  // namespace

std::int64_t input_elements(const Problem& p, int rank) {
  if (p.collective == Collective::barrier) return 0;
  if ((p.collective == Collective::broadcast || p.collective == Collective::scatter) && rank != p.root) return 0;
  return input_has_blocks(p.collective) ? p.count * p.size : p.count;
}

std::int64_t output_elements(const Problem& p, int rank) {
  if (p.collective == Collective::barrier) return 0;
  if ((p.collective == Collective::reduce || p.collective == Collective::gather) && rank != p.root) return 0;
  return output_has_blocks(p.collective) ? p.count * p.size : p.count;
}

std::string_view name_of(BenchMode mode) noexcept {
  switch (mode) {
    case BenchMode::out_of_place:
      return "out-of-place";
    case BenchMode::in_place:
      return "in-place";
    case BenchMode::latency:
      return "latency";
    case BenchMode::bandwidth:
      return "bandwidth";
  }
  return "unknown";
}

std::string_view name_of(const Problem& p) noexcept { return p.messages ? kMessages : name_of(p.collective); }

std::int64_t total_bytes(const Problem& p) {
  if (p.messages) return p.count * static_cast<std::int64_t>(size_of(p.dtype));
  if (p.collective == Collective::barrier) return 0;
  const bool blocks = input_has_blocks(p.collective) || output_has_blocks(p.collective);
  return p.count * (blocks ? p.size : 1) * static_cast<std::int64_t>(size_of(p.dtype));
}

void fill_input(const Problem& p, int rank, void* input) {
  with_type(p.dtype, [&]<class T>() {
    for (std::int64_t j = 0; j < input_elements(p, rank); j++) {
      const T v(static_cast<T>(value(p, rank, j)));
      std::memcpy(static_cast<char*>(input) + j * static_cast<std::int64_t>(sizeof(T)), &v, sizeof(T));
    }
  });
}

std::int64_t wrong_in_input(const Problem& p, int rank, const void* input) {
  return count_wrong(p.dtype, input_elements(p, rank), input, [&](std::int64_t j) { return value(p, rank, j); });
}

std::int64_t wrong_in_output(const Problem& p, int rank, const void* output) {
  return count_wrong(p.dtype, output_elements(p, rank), output, [&](std::int64_t j) { return expected(p, rank, j); });
}

}  // namespace unisono::cli
