/// Copies. memcpy is hard to beat within the caches; past them, stores that bypass the cache save reading what is
/// overwritten.

#include <cstdint>
#include <cstring>

#include "kernels/kernels.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace unisono::kernels {

#if defined(__SSE2__)
namespace {

constexpr std::size_t kLine = 64;

/// `to` is aligned to a line; `lines` whole ones are written around the caches.
void stream_lines(char* to, const char* from, std::size_t lines) noexcept {
  for (std::size_t i = 0; i < lines; i++, to += kLine, from += kLine) {
    const auto* in = reinterpret_cast<const __m128i*>(from);
    auto* out = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(in), b = _mm_loadu_si128(in + 1), c = _mm_loadu_si128(in + 2),
                  d = _mm_loadu_si128(in + 3);
    _mm_stream_si128(out, a);
    _mm_stream_si128(out + 1, b);
    _mm_stream_si128(out + 2, c);
    _mm_stream_si128(out + 3, d);
  }
  _mm_sfence();  // streamed stores are weakly ordered: whoever signals "done" after this copy must not overtake them
}

void copy_streaming(char* to, const char* from, std::size_t bytes) noexcept {
  const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  const std::size_t lines = (bytes - head) / kLine;
  std::memcpy(to, from, head);
  stream_lines(to + head, from + head, lines);
  const std::size_t done = head + lines * kLine;
  std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace
#endif

void copy(void* dst, const void* src, std::size_t bytes, bool streaming) noexcept {
  if (bytes == 0) return;  // both may be null
#if defined(__SSE2__)
  if (streaming && bytes >= 4 * kLine)
    return copy_streaming(static_cast<char*>(dst), static_cast<const char*>(src), bytes);
#else
  static_cast<void>(streaming);  // no such stores here: the hint goes unused
#endif
  std::memcpy(dst, src, bytes);
}

}  // namespace unisono::kernels
