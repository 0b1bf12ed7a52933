#pragma once
/// What lies where in a segment. Peers map it read-only, so every word here has one writer: the owner. All words are
/// monotonic or flags; nothing read from a peer's segment is trusted as an index before it is bounded.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace unisono::transport::shm {

inline constexpr std::uint64_t kPage = 4096;
inline constexpr std::uint64_t kLine = 64;
inline constexpr std::uint64_t kHeaderBytes = kPage;         ///< the segment's first page; offset 0 is never handed out
inline constexpr std::uint64_t kMagic = 0x31306f6e6f73696e;  // "nisono01"
/// Of the layout, and of what ranks work out alike without a word, such as places on stages (engine/stage_ring.h).
inline constexpr std::uint32_t kVersion = 10;

struct SegmentHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t tried;  ///< written to by peers, through the kernel, to see whether they may
  std::uint64_t bytes;
  std::uint64_t base;   ///< the owner's address of the segment
  std::uint64_t nonce;  ///< random: whoever reads it at `base` in a process's memory knows that it is the owner's
  std::atomic<std::int32_t>
      resting;  ///< a thread of the owner that sleeps (resting_thread.h), as the owner calls it; 0: none
  alignas(kLine)
      std::atomic<std::uint32_t> parked;  ///< the owner sleeps: ring its doorbell after a store that it waits for
  std::atomic<std::uint32_t> processor;   ///< 1 + where the owner last waited; 0: not said
};
static_assert(sizeof(SegmentHeader) <= kHeaderBytes);

/// The first line of a short write beside the ring (lane.h); what does not fit into it follows on the next ones.
struct LaneLine {
  alignas(kLine) std::atomic<std::uint64_t> stamp;  ///< 1 + where in the stream its bytes begin; 0: not written yet
  std::uint32_t bytes;                              ///< or kTurn
  std::byte data[52];

  /// Nothing: the next one is at the lane's beginning.
  static constexpr std::uint32_t kTurn = 0xffffffff;
};
static_assert(sizeof(LaneLine) == kLine);
inline constexpr std::size_t kLaneLines = 256;
/// The most bytes of a short write: 4 KiB behind a frame's header.
inline constexpr std::size_t kMostInLane = 4096 + 64;

/// One a link and direction of ownership: what the owner says as the writer of its ring and as the reader of the peer's.
struct ControlBlock {
  alignas(kLine) std::atomic<std::uint64_t> head;    ///< bytes ever written into the owner's ring
  std::atomic<std::uint64_t> ring_offset;            ///< where it is; 0 until the first write
  std::atomic<std::uint64_t> ring_bytes;             ///< a power of two; set before ring_offset
  std::atomic<std::uint32_t> starved;                ///< the owner found no room and waits until the peer has read
  alignas(kLine) std::atomic<std::uint32_t> closed;  ///< the owner's end of the link is gone
  alignas(kLine) std::atomic<
      std::uint64_t> tail;  ///< bytes ever read out of the peer's ring; not beside head, which prefetchers pair
  std::atomic<std::uint64_t> lane_read;  ///< lines of the peer's lane, ever
  LaneLine lane[kLaneLines];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free,
              "words in shared memory must not hide a lock");

}  // namespace unisono::transport::shm
