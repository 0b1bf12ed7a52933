#pragma once
/// What `unisono bench --check` puts into buffers, and what must come out: small integers, exact in
/// every element type whatever the order of the reduction. Pure.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "unisono/types.hpp"

namespace unisono::cli {

/// One collective among `size` ranks with `count` elements as Call counts them, or messages of
/// `count` elements.
struct Problem {
  Collective collective = Collective::all_reduce;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  int size = 1;
  std::int64_t count = 0;
  bool messages = false;  ///< send and recv between rank 0 and the last one; `collective`, op and root mean nothing
};

/// What it is called in bench's arguments and output where it is no collective.
inline constexpr std::string_view kMessages = "send_recv";
std::string_view name_of(const Problem& problem) noexcept;

/// How the buffers of a collective lie, or what is asked of messages.
enum class BenchMode : std::uint8_t { out_of_place, in_place, latency, bandwidth };
/// "out-of-place", "in-place", "latency", "bandwidth".
std::string_view name_of(BenchMode mode) noexcept;

/// Elements of a rank's input and of its output; 0 where it has none.
std::int64_t input_elements(const Problem& problem, int rank);
std::int64_t output_elements(const Problem& problem, int rank);

/// The size of the collective in bytes, as it is printed and divided by time: of the buffer, or of
/// the one with n blocks; of messages: of one.
std::int64_t total_bytes(const Problem& problem);

/// Fills `input` with rank's values.
void fill_input(const Problem& problem, int rank, void* input);

/// Elements of `input` that are not rank's values (any more), and of `output` that are not what
/// rank should have got.
std::int64_t wrong_in_input(const Problem& problem, int rank, const void* input);
std::int64_t wrong_in_output(const Problem& problem, int rank, const void* output);

}  // namespace unisono::cli
