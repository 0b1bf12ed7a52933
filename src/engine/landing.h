#pragma once
/// Private memory of a process to which another one may write a part of a copy, through the kernel.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/joint_work.h"
#include "transport/transport.h"

namespace unisono::engine {

/// Where the slices of such a copy are to come, in the segment of the process that has the memory. Who takes it back is not written to any more, not even by a process that was stopped just before it
/// writes, as the kernel looks the places up here (transport::Area).
struct Landing {
  static constexpr std::uint64_t kMostSlices = 32;
  /// So many slices are copied in one call into the kernel: half a MiB of copies that are not very long.
  static constexpr std::uint64_t kAtOnce = 4;
  /// Bytes of a slice of a copy of `bytes`. A short one has two, of which the owner's is longer: the other has to hear of it, and to be heard.
  static std::uint64_t slice_for(std::uint64_t bytes) noexcept {
    return JointWork::slice_of(bytes, std::min<std::uint64_t>(bytes / 16 * 9, 128 << 10), kMostSlices);
  }

  /// The same where this process's operand is summed with the other's. Each reads what lies in the other's cache, and what the second one writes has to leave the owner's: it does a third.
  static std::uint64_t slice_for_sums(std::uint64_t bytes) noexcept {
    return JointWork::slice_of(bytes, std::min<std::uint64_t>(bytes / 16 * 11, 88 << 10), kMostSlices);
  }

  /// The owner's: it is at `memory`, of so many bytes, in slices of so many.
  void open(std::byte* memory, std::uint64_t bytes, std::uint64_t slice) noexcept;
  /// Likewise: what has not begun to be written is not written any more.
  void take_back() noexcept;
  /// The other's: those of a piece, which is of slices of so many bytes.
  std::span<const transport::Area> areas(const JointWork::Piece& piece, std::uint64_t slice) const noexcept {
    return std::span(to).subspan(piece.at / slice, piece.slices);
  }

  transport::Area to[kMostSlices];
};

}  // namespace unisono::engine
