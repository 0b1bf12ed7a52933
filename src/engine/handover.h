#pragma once
/// A large message between two processes that map each other's memory. It is announced and not sent: the receiver copies it out of the sender's
/// buffer into its own, slice by slice from the end, and where its buffer is shared memory, too, the sender copies from the beginning, until they
/// meet. Either may do it all, so neither waits for the other. docs/design/0004-zero-copy.md.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace unisono::engine {

/// Messages from so many bytes on are handed over. Below, two copies that overlap take no longer than finding out where memory lies.
inline constexpr std::size_t kHandedOver = 64 << 10;

/// In the sender's segment, open to the receiver until it says `left`. Whoever changes `claims` or `copied` so that the other can go on wakes it.
struct alignas(64) HandoverRecord {
  std::atomic<std::uint64_t> claims{0};  ///< slices that somebody copies or has copied, and flags: see Handover
  std::atomic<std::uint64_t> copied{0};  ///< slices
  std::atomic<std::uint64_t> target{
      0};                              ///< the receiver's buffer, in its segment; 0: it is not there. Set before kTaken
  std::uint64_t source = 0;            ///< the sender's, in its own
  std::uint64_t bytes = 0, slice = 0;  ///< of the message, and of a slice
  std::uint32_t sender_in_front =
      0;  ///< 1: it copies from the beginning, and the receiver from the end; 0: the other way round
  std::atomic<std::uint32_t> left{0};  ///< 1: the receiver will not look here again
};
static_assert(sizeof(HandoverRecord) == 64);

/// One side of it. A slice that is claimed is copied at once, without waiting for anything: so after stop() the other side is through with its
/// last one soon, unless its process is stopped. Thread-safety: one thread at a time; the other side is another process, or another thread.
class Handover {
 public:
  enum class Side : std::uint8_t { sender, receiver };

  /// Bytes of a slice of a message of `bytes`.
  static std::uint64_t slice_for(std::uint64_t bytes) noexcept;
  /// `record` is filled in, and lives until the receiver has left it. The sender's side cannot copy before open().
  Handover(HandoverRecord& record, Side side, const std::byte* from) noexcept;

  /// The receiver's: it is matched, and copies to `to`, no more than `room` bytes. `target`: where the sender may, too; or 0.
  void take(std::byte* to, std::uint64_t room, std::uint64_t target) noexcept;
  /// The sender's: where the receiver's buffer is, once it has been matched with one in shared memory; else 0.
  std::uint64_t target() const noexcept;
  /// The sender's: that memory, here.
  void open(std::byte* to) noexcept { to_ = to, room_ = bytes_; }
  bool opened() const noexcept { return to_ != nullptr; }

  /// Copies at most so many bytes, at least a slice if there is one; whether any.
  bool copy(std::uint64_t most) noexcept;
  /// All is copied, by whomever. Of the receiver's side: and the sender has not taken its buffer back before.
  bool complete() const noexcept;
  /// The sender has stopped, or the receiver has.
  bool given_up() const noexcept;
  bool declined() const noexcept;

  /// The sender's: stop, unless it is matched; whether it was not.
  bool withdraw() noexcept;
  /// No slice is claimed any more.
  void stop() noexcept;
  /// After stop(): whether all that had been claimed is copied, so that the other side touches nothing any more.
  bool quiet() const noexcept;
  /// The sender's, when that did not come about: it takes its buffer back, and what is received from now on is not complete.
  void tear() noexcept;
  /// The receiver's last word.
  void leave() noexcept { record_->left.store(1, std::memory_order_release); }

  /// Of the record: the receiver asks before it takes, and declines what nobody wants.
  static bool withdrawn(const HandoverRecord& record) noexcept;
  static void decline(HandoverRecord& record) noexcept;

 private:
  HandoverRecord* record_;
  Side side_;
  bool in_front_;
  const std::byte* from_;
  std::byte* to_ = nullptr;
  std::uint64_t bytes_, slice_, slices_;
  std::uint64_t room_ = 0;  ///< what is beyond is counted, but not copied
  std::uint64_t due_ = 0;   ///< slices that were claimed when this side stopped
};

}  // namespace unisono::engine
