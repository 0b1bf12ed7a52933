#pragma once
/// A byte stream through memory: single producer, single consumer. The data and the head lie in the writer's segment, the tail
/// in the reader's (each maps the other's read-only). Head and tail count bytes since the beginning; acquire and release
/// order them; each side keeps a copy of the other's, so that the shared line is touched only when the copy runs out.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "kernels/kernels.h"
#include "kernels/shared_stores.h"
#include "transport/shm/layout.h"

namespace unisono::transport::shm {

class RingWriter {
 public:
  /// `bytes` is a power of two.
  RingWriter(std::byte* data, std::uint64_t bytes, ControlBlock& mine, const ControlBlock& theirs) noexcept
      : data_(data), bytes_(bytes), mine_(mine), theirs_(theirs), stores_(bytes) {}

  /// Bytes that fit now; looks at the reader's index when fewer than `wanted` are known to. Nothing: the index is nonsense.
  std::optional<std::uint64_t> room(std::uint64_t wanted) noexcept {
    if (bytes_ - (head_ - tail_) < wanted) {
      const std::uint64_t tail = theirs_.tail.load(std::memory_order_acquire);
      if (head_ - tail > bytes_) return std::nullopt;
      tail_ = tail;
    }
    return bytes_ - (head_ - tail_);
  }
  /// Not more than room(). Invisible until publish().
  void put(const std::byte* from, std::uint64_t n) noexcept {
    const std::uint64_t at = head_ & (bytes_ - 1);
    const std::uint64_t first = std::min(n, bytes_ - at);
    copy(data_ + at, from, first);
    if (n > first) copy(data_, from + first, n - first);
    head_ += n;
  }
  void publish() noexcept { mine_.head.store(head_, std::memory_order_release); }

 private:
  void copy(std::byte* to, const std::byte* from, std::uint64_t n) noexcept {
    if (n < kernels::SharedStores::kLeast)
      std::memcpy(to, from, n);
    else
      stores_.copy(to, from, n);
  }

  std::byte* data_;
  std::uint64_t bytes_;
  ControlBlock& mine_;
  const ControlBlock& theirs_;
  std::uint64_t head_ = 0;
  std::uint64_t tail_ = 0;  ///< the reader's, as last seen
  kernels::SharedStores stores_;
};

class RingReader {
 public:
  RingReader(const std::byte* data, std::uint64_t bytes, ControlBlock& mine, const ControlBlock& theirs) noexcept
      : data_(data), bytes_(bytes), mine_(mine), theirs_(theirs) {}

  /// Bytes there now; looks at the writer's index when fewer than `wanted` are known. Nothing: the index is nonsense.
  std::optional<std::uint64_t> available(std::uint64_t wanted) noexcept {
    if (head_ - tail_ < wanted) {
      const std::uint64_t head = theirs_.head.load(std::memory_order_acquire);
      if (head - tail_ > bytes_) return std::nullopt;
      head_ = head;
    }
    return head_ - tail_;
  }
  /// Not more than available(). The room is the writer's again after publish(). `around` as in kernels::copy.
  void get(std::byte* to, std::uint64_t n, bool around = false) noexcept {
    const std::uint64_t at = tail_ & (bytes_ - 1);
    const std::uint64_t first = std::min(n, bytes_ - at);
    take(to, data_ + at, first, around);
    if (n > first) take(to + first, data_, n - first, around);
    tail_ += n;
  }
  void publish() noexcept { mine_.tail.store(tail_, std::memory_order_release); }

 private:
  /// Short messages cannot wait for a kernel to be looked up.
  static void take(std::byte* to, const std::byte* from, std::uint64_t n, bool around) noexcept {
    constexpr std::uint64_t kShort = 1 << 10;
    if (n < kShort)
      std::memcpy(to, from, n);
    else
      kernels::fetch(to, from, n, around);
  }

  const std::byte* data_;
  std::uint64_t bytes_;
  ControlBlock& mine_;
  const ControlBlock& theirs_;
  std::uint64_t tail_ = 0;
  std::uint64_t head_ = 0;  ///< the writer's, as last seen
};

}  // namespace unisono::transport::shm
