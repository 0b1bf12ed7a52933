#pragma once
/// One collective on memory of whatever kind: for tests that compare kinds.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono::test {

/// Sanitizers look at every access: there the largest cases run among few ranks only. The optimised build runs them all.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline constexpr Collective kMoving[] = {Collective::all_reduce, Collective::reduce,    Collective::broadcast,
                                         Collective::all_gather, Collective::gather,    Collective::reduce_scatter,
                                         Collective::scatter,    Collective::all_to_all};

/// Elements of a rank's two sides, for calls with equal counts.
struct Sides {
  std::size_t in, out;
};
inline Sides sides(const Call& c, int rank, int n) {
  const auto one = static_cast<std::size_t>(c.count), all = one * static_cast<std::size_t>(n);
  const bool root = rank == c.root;
  switch (c.collective) {
    case Collective::all_reduce:
      return {one, one};
    case Collective::reduce:
      return {one, root ? one : 0};
    case Collective::broadcast:
      return {root ? one : 0, one};
    case Collective::all_gather:
      return {one, all};
    case Collective::gather:
      return {one, root ? all : 0};
    case Collective::reduce_scatter:
      return {all, one};
    case Collective::scatter:
      return {root ? all : 0, one};
    default:
      return {all, all};
  }
}

inline void fill(void* data, std::size_t bytes, int rank, DType dtype) {
  auto* p = static_cast<unsigned char*>(data);
  // Small exponents, so that floating sums are finite and their bits depend on the order of the fold.
  const unsigned char mask = dtype == DType::boolean ? 1 : 0x3f;
  constexpr std::size_t kPeriod = 64 * 255;
  for (std::size_t i = 0; i < std::min(bytes, kPeriod); i++)
    p[i] = static_cast<unsigned char>((i * 37 + static_cast<std::size_t>(rank) * 101 + i / 255) & mask);
  // Not byte by byte: sanitizers look at every access.
  for (std::size_t i = kPeriod; i < bytes; i += kPeriod) std::memcpy(p + i, p, std::min(kPeriod, bytes - i));
}

inline bool equal_bytes(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

/// The call on memory that `take` hands out; the bytes of the output.
template <class Take>
std::vector<std::byte> run_on(const Group& world, Call call, bool in_place, const Take& take) {
  const auto [in, out] = sides(call, world.rank(), world.size());
  const std::size_t element = size_of(call.dtype);
  std::byte* input = take(0, in * element);
  std::byte* output = take(1, out * element);
  if (in_place && in > 0 && out > 0) {
    const std::size_t own = static_cast<std::size_t>(call.count * world.rank()) * element;
    if (in > out) output = input + own;
    if (in < out) input = output + own;
    if (in == out) input = output;
  }
  if (output != nullptr) std::memset(output, 0x55, out * element);
  if (input != nullptr) fill(input, in * element, world.rank(), call.dtype);
  call.input = input;
  call.output = output;
  world.run(call);
  return {output, output + out * element};
}

inline std::vector<std::byte> on_private(const Group& world, const Call& call) {
  std::vector<std::byte> memory[2];
  return run_on(world, call, false, [&](int which, std::size_t bytes) {
    memory[which].resize(bytes);
    return bytes == 0 ? nullptr : memory[which].data();
  });
}

}  // namespace unisono::test
