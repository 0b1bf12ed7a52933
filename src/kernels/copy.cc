/// Copies. memcpy is hard to beat within the caches; past them, stores that bypass the cache save reading what is
/// overwritten.

#include <cstdint>
#include <cstring>

#include "kernels/kernel_set.h"

namespace unisono::kernels {

namespace {

/// Lines below which there is nothing to gain.
constexpr std::size_t kFewLines = 4;

/// Whole lines of the destination by `lines_around`, the parts of lines at both ends by memcpy.
void copy_streaming(unit::CopyFunction lines_around, char* to, const char* from, std::size_t bytes) noexcept {
  const std::size_t head = (unit::kLine - reinterpret_cast<std::uintptr_t>(to) % unit::kLine) % unit::kLine;
  const std::size_t lines = (bytes - head) / unit::kLine;
  std::memcpy(to, from, head);
  lines_around(to + head, from + head, lines);
  const std::size_t done = head + lines * unit::kLine;
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace

void KernelSet::copy(void* dst, const void* src, std::size_t bytes, bool streaming) const noexcept {
  if (bytes == 0) return;  // both may be null
  if (streaming && table->copy_around != nullptr && bytes >= kFewLines * unit::kLine)
    return copy_streaming(table->copy_around, static_cast<char*>(dst), static_cast<const char*>(src), bytes);
  std::memcpy(dst, src, bytes);
}

}  // namespace unisono::kernels
