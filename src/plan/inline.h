#pragma once
/// Which collectives between ranks that share memory need no plan: what a rank sends is copied beside the announcement of the operation, from where
/// the others take it. Pure; the same answer on every rank.

#include <cstdint>

#include "unisono/types.hpp"

namespace unisono::plan {

/// Bytes that lie in the announcement's own cache line; more lie beside it.
inline constexpr std::int64_t kInLine = 40;
/// The most that a rank can post, and the most that a rank may have to read of all others. Beyond, ranks do better to read a part each, and to keep what others read
/// out of the way of what they write (docs/design/0001-foundation.md, "The tiny path").
inline constexpr std::int64_t kMostPosted = 4 << 10, kMostRead = 16 << 10;
/// The longest block between two ranks: beyond, a copy through the kernel is quicker, and a stage as quick.
inline constexpr std::int64_t kMostOfTwo = 2 << 10;

/// The longest block that may travel so, whatever is posted and read.
constexpr std::int64_t most_inline(std::int64_t ranks) noexcept { return ranks == 2 ? kMostOfTwo : kMostPosted; }

/// Bytes that the busiest rank posts. `block`: count times the size of an element, as unisono::Call has the count.
constexpr std::int64_t posted_inline(Collective c, std::int64_t ranks, std::int64_t block) noexcept {
  switch (c) {
    case Collective::barrier:
      return 0;
    case Collective::scatter:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return block * ranks;
    default:
      return block;
  }
}

/// Whether operands of this size travel with the announcements. With equal counts, and unless the user has named an algorithm.
constexpr bool goes_inline(Collective c, std::int64_t ranks, std::int64_t block) noexcept {
  if (block > most_inline(ranks)) return false;  // before it is multiplied
  const std::int64_t posted = posted_inline(c, ranks, block);
  const bool reads_all =
      c == Collective::all_reduce || c == Collective::all_gather || c == Collective::reduce || c == Collective::gather;
  return posted <= kInLine || (posted <= kMostPosted && (!reads_all || posted * ranks <= kMostRead));
}

}  // namespace unisono::plan
