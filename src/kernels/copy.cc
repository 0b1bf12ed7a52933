/// Copies. memcpy is hard to beat within the caches, also where the destination lies in another core's: its instruction for
/// long ones need not fetch what it overwrites. Past them, stores that bypass the caches save more, and lines
/// that are asked for long before they are read come faster.
///
/// But the same instruction is a bad reader of what another core has written and will write again: it makes the processor fetch ahead far
/// past the end, where that core writes next, and its stores take twice as long then (docs/design/0003-speed.md).

#include <cstdint>
#include <cstring>

#include "kernels/kernel_set.h"

namespace unisono::kernels {

namespace {

/// Bytes below which there is nothing to gain.
constexpr std::size_t kFew = 256;

/// Whole lines of the destination by `copy`, the parts of lines at both ends by memcpy.
void copy_lines(unit::CopyFunction copy, char* to, const char* from, std::size_t bytes) noexcept {
  const std::size_t head = (unit::kLine - reinterpret_cast<std::uintptr_t>(to) % unit::kLine) % unit::kLine;
  const std::size_t lines = (bytes - head) / unit::kLine;
  std::memcpy(to, from, head);
  copy(to + head, from + head, lines);
  const std::size_t done = head + lines * unit::kLine;
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace

void KernelSet::copy(void* dst, const void* src, std::size_t bytes, bool around, bool far) const noexcept {
  if (bytes == 0) return;  // both may be null
  if (around && table->copy_memory != nullptr && bytes >= kFew)
    copy_lines(far ? table->copy_around : table->copy_memory, static_cast<char*>(dst), static_cast<const char*>(src),
               bytes);
  else
    std::memcpy(dst, src, bytes);
}

void KernelSet::fetch(void* dst, const void* src, std::size_t bytes, bool around) const noexcept {
  constexpr std::size_t kLong = 1 << 10;  // below, no memcpy takes that instruction
  if (table->fetch == nullptr || bytes < kLong) return copy(dst, src, bytes, around, false);
  copy_lines(around ? table->copy_around : table->fetch, static_cast<char*>(dst), static_cast<const char*>(src), bytes);
}

}  // namespace unisono::kernels
