#pragma once
/// The store-load fence of the sleep protocol: one side stores data, fences, and looks whether the other sleeps; the other
/// announces its sleep, fences, and looks for data. Whatever the interleaving, one of them sees the other.

#include <atomic>

#if defined(__SANITIZE_THREAD__)
#define UNISONO_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNISONO_TSAN 1
#endif
#endif

namespace unisono::transport {

inline void full_fence() noexcept {
#ifdef UNISONO_TSAN
  // ThreadSanitizer does not model fences (and g++ refuses them under it). The data are published by release stores, so it
  // needs none; the machine still gets its barrier from the locked instruction.
  std::atomic<int> word{0};
  word.exchange(1, std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

}  // namespace unisono::transport
