#include "engine/landing.h"

#include <algorithm>

namespace unisono::engine {

void Landing::open(std::byte* memory, std::uint64_t bytes, std::uint64_t slice) noexcept {
  for (std::uint64_t at = 0, k = 0; at < bytes; at += slice, k++) {
    to[k].address.store(reinterpret_cast<std::uintptr_t>(memory) + at, std::memory_order_relaxed);
    to[k].bytes.store(std::min(slice, bytes - at), std::memory_order_relaxed);
  }
}

void Landing::take_back() noexcept {
  for (transport::Area& area : to) area.bytes.store(0, std::memory_order_seq_cst);
}

}  // namespace unisono::engine
