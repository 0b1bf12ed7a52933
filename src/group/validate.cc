/// Bad input is refused before anything is sent.

#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "group/group_impl.h"

namespace unisono::detail {

namespace {

[[noreturn]] void refuse(const Call& call, const std::string& group, const std::string& why) {
  throw InvalidArgument(fmt::format("{} on group \"{}\": {}. Nothing was sent", name_of(call.collective), group, why));
}

/// count elements, n times, in bytes; refuses what does not fit into 63 bits.
std::int64_t bytes_of(const Call& call, const std::string& group, std::int64_t count, std::int64_t times) {
  const auto element = static_cast<std::int64_t>(size_of(call.dtype));
  const auto elements = checked_multiply(count, times);
  const auto bytes = elements ? checked_multiply(*elements, element) : std::nullopt;
  if (!bytes) refuse(call, group, fmt::format("{} x {} elements of {} bytes overflow 64 bits", times, count, element));
  return *bytes;
}

std::int64_t sum_bytes(const Call& call, const std::string& group, std::span<const std::int64_t> counts,
                       const char* what, int size) {
  if (counts.size() != static_cast<std::size_t>(size))
    refuse(call, group,
           fmt::format("{} has {} entries, one for each of the {} ranks is needed", what, counts.size(), size));
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < counts.size(); i++) {
    if (counts[i] < 0) refuse(call, group, fmt::format("{}[{}] is {}; counts cannot be negative", what, i, counts[i]));
    const auto next = checked_add(sum, counts[i]);
    if (!next) refuse(call, group, fmt::format("the sum of {} overflows 64 bits", what));
    sum = *next;
  }
  return bytes_of(call, group, sum, 1);
}

/// Bytes in front of rank's block.
std::int64_t offset_of(const Call& call, int rank) {
  const auto element = static_cast<std::int64_t>(size_of(call.dtype));
  if (call.counts.empty()) return call.count * rank * element;
  return std::accumulate(call.counts.begin(), call.counts.begin() + rank, std::int64_t{0}) * element;
}

}  // namespace

Areas areas_of(const Call& call, int rank, int size, const std::string& group) {
  Areas areas;
  auto& [in, out] = areas;
  const bool root = rank == call.root;
  const bool uneven = !call.counts.empty();
  const auto whole = [&] {
    return uneven ? sum_bytes(call, group, call.counts, "counts", size) : bytes_of(call, group, call.count, size);
  };
  const auto own = [&] { return bytes_of(call, group, uneven ? call.counts[rank] : call.count, 1); };
  in.begin = static_cast<const std::byte*>(call.input);
  out.begin = static_cast<const std::byte*>(call.output);
  switch (call.collective) {
    case Collective::all_reduce:
      in.bytes = out.bytes = bytes_of(call, group, call.count, 1);
      break;
    case Collective::reduce:
      in.bytes = bytes_of(call, group, call.count, 1);
      out.bytes = root ? in.bytes : 0;
      break;
    case Collective::broadcast:
      out.bytes = bytes_of(call, group, call.count, 1);
      in.bytes = root ? out.bytes : 0;
      break;
    case Collective::all_gather:
    case Collective::gather:
      out.bytes = whole();
      in.bytes = own();
      if (call.collective == Collective::gather && !root) out.bytes = 0;
      break;
    case Collective::reduce_scatter:
    case Collective::scatter:
      in.bytes = whole();
      out.bytes = own();
      if (call.collective == Collective::scatter && !root) in.bytes = 0;
      break;
    case Collective::all_to_all:
      if (uneven != !call.output_counts.empty()) refuse(call, group, "counts and output_counts must be given together");
      in.bytes = whole();
      out.bytes = uneven ? sum_bytes(call, group, call.output_counts, "output_counts", size) : in.bytes;
      if (uneven && call.counts[rank] != call.output_counts[rank])
        refuse(call, group,
               fmt::format(
                   "counts[{0}] is {1} but output_counts[{0}] is {2}: what a rank sends to itself it also receives",
                   rank, call.counts[rank], call.output_counts[rank]));
      break;
    case Collective::barrier:
      break;
  }
  return areas;
}

namespace {

void check_overlap(const Call& call, int rank, const std::string& group, const Area& in, const Area& out) {
  if (in.bytes == 0 || out.bytes == 0) return;
  if (in.begin + in.bytes <= out.begin || out.begin + out.bytes <= in.begin) return;
  const char* allowed = "input and output must be different memory";
  switch (call.collective) {
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::broadcast:
      if (in.begin == out.begin) return;
      allowed = "in place means that both start at the same address";
      break;
    case Collective::all_gather:
    case Collective::gather:
      return;  // put_in_place()
    case Collective::reduce_scatter:
    case Collective::scatter:
      if (out.begin == in.begin + offset_of(call, rank)) return;
      allowed = "in place means that output is this rank's own block of input";
      break;
    default:
      break;
  }
  refuse(call, group,
         fmt::format("input (at {}, {} bytes) and output (at {}, {} bytes) overlap; {}",
                     static_cast<const void*>(in.begin), in.bytes, static_cast<const void*>(out.begin), out.bytes,
                     allowed));
}

const char* remedy(ReduceOp op) {
  if (op == ReduceOp::avg) return "convert the elements to numbers";
  if (op == ReduceOp::min || op == ReduceOp::max)
    return "complex numbers have no order; reduce their magnitudes, or their parts one by one";
  return "it is for integers and bool";
}

}  // namespace

bool is_misplaced(const Call& call, int rank, int size) noexcept {
  if (call.collective != Collective::all_gather && (call.collective != Collective::gather || rank != call.root))
    return false;
  const auto element = static_cast<std::int64_t>(size_of(call.dtype));
  const auto* const in = static_cast<const std::byte*>(call.input);
  const auto* const out = static_cast<const std::byte*>(call.output);
  const std::int64_t own = (call.counts.empty() ? call.count : call.counts[static_cast<std::size_t>(rank)]) * element;
  const std::int64_t all = collective_bytes(call, size);
  return own > 0 && in < out + all && out < in + own && in != out + offset_of(call, rank);
}

void put_in_place(Call& call, int rank, int size) noexcept {
  if (!is_misplaced(call, rank, size)) return;
  const auto element = static_cast<std::int64_t>(size_of(call.dtype));
  const std::int64_t own = (call.counts.empty() ? call.count : call.counts[static_cast<std::size_t>(rank)]) * element;
  std::byte* const to = static_cast<std::byte*>(call.output) + offset_of(call, rank);
  std::memmove(to, call.input, static_cast<std::size_t>(own));
  call.input = to;
}

void validate(const Call& call, int rank, int size, const std::string& group) {
  if (call.count < 0) refuse(call, group, fmt::format("count is {}; it cannot be negative", call.count));
  if (rooted(call.collective) && (call.root < 0 || call.root >= size))
    refuse(call, group, fmt::format("root {} is out of range: the group has ranks 0 to {}", call.root, size - 1));
  if (reduces(call.collective) && !supports(call.op, call.dtype))
    refuse(call, group,
           fmt::format("{} is not defined for {}; {}", name_of(call.op), name_of(call.dtype), remedy(call.op)));
  const auto [in, out] = areas_of(call, rank, size, group);
  if (in.bytes > 0 && in.begin == nullptr)
    refuse(call, group, fmt::format("input is null, but {} bytes are to be read from it", in.bytes));
  if (out.bytes > 0 && out.begin == nullptr)
    refuse(call, group, fmt::format("output is null, but {} bytes are to be written to it", out.bytes));
  check_overlap(call, rank, group, in, out);
}

bool even(const Call& call) {
  const auto all_equal = [](std::span<const std::int64_t> counts) {
    for (const std::int64_t c : counts)
      if (c != counts[0]) return false;
    return true;
  };
  return call.counts.empty() || (all_equal(call.counts) && all_equal(call.output_counts) && call.output_counts.empty());
}

std::int64_t collective_bytes(const Call& call, int size) {
  const auto element = static_cast<std::int64_t>(size_of(call.dtype));
  switch (call.collective) {
    case Collective::barrier:
      return 0;
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::broadcast:
      return call.count * element;
    case Collective::all_to_all:
      // Each rank knows its own row only: with counts there is no size that all would agree on.
      return call.counts.empty() ? call.count * size * element : 0;
    default:
      return (call.counts.empty() ? call.count * size
                                  : std::accumulate(call.counts.begin(), call.counts.end(), std::int64_t{0})) *
             element;
  }
}

}  // namespace unisono::detail
