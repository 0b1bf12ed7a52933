#pragma once
/// Sums of what arrives. A message that one reduce alone is made for is reduced while it comes, piece by piece, out of a buffer that stays in the
/// caches of the core; otherwise all of it would go to scratch first, and would have left the caches when it is read again.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.h"
#include "plan/ir.h"

namespace unisono::engine {

/// A reduce of which one operand arrives in a message. Its results and its other operands are ready for it when its receive is posted.
struct Fold {
  /// Where the slices in flight have so many bytes in a block of scratch, they are reduced as they come. Less stays in the caches, and takes fewer calls
  /// into the kernel in one piece.
  static constexpr std::int64_t kLeast = 512 << 10;
  /// Bytes that are reduced at a time, a multiple of all elements' sizes: an eighth of a core's second cache. Longer pieces take fewer calls into the kernel.
  static std::size_t piece_bytes() noexcept;

  kernels::Reduce what;
  std::vector<std::byte*> results;
  std::vector<const std::byte*> operands;  ///< in the order of the sum; nullptr: what arrives

  /// The same for what arrives from byte `at` of the message on.
  Fold from(std::size_t at) const;
  /// Bytes `at` of the message and the following ones have arrived: whole elements.
  void add(std::size_t at, std::span<const std::byte> arrived) const noexcept;
};

/// Which messages of a plan may be reduced as they come.
struct Folding {
  std::int32_t reduce = -1;  ///< of a recv: the reduce that may be done with it; -1: none
  /// It may if these steps are done when the receive is posted. No receive waits for them: one of them may be a send that ends only when its receiver's own
  /// message is taken here.
  std::vector<std::uint32_t> after;
};

/// By step; empty when there is none.
std::vector<Folding> find_foldings(const plan::Plan& plan);

}  // namespace unisono::engine
