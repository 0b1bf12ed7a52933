#pragma once
/// The processor's caches, as far as somebody's pieces are cut to their size.

#include <cstddef>

namespace unisono {

/// Bytes of the second cache of a core; 0: the system does not say. Any thread.
std::size_t second_cache_bytes() noexcept;

}  // namespace unisono
