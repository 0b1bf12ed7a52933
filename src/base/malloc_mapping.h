#pragma once
/// Memory that malloc has mapped for one request alone.

#include <cstddef>
#include <cstdint>

namespace unisono {

/// How many bytes a program may use from `data` on, if that is what glibc's malloc, aligned_alloc or a relative has returned for a request so large
/// (128 KiB and more at first) that it got a mapping of its own, which free() unmaps. 0 when it is anything else: a part of such memory, memory of malloc's
/// heap, of another allocator, of another C library, or nothing at all. Reads no memory that may not be there. Any thread.
std::uint64_t mapped_by_malloc(const void* data) noexcept;

}  // namespace unisono
