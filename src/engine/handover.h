#pragma once
/// A large message between two processes that map each other's memory, or reach it through the kernel. It is announced and not sent: the receiver copies it out of the sender's
/// buffer into its own, and where the sender reaches that both sides copy (joint_copy.h; the sender owns the record).
/// docs/design/0004-zero-copy.md.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/joint_copy.h"
#include "engine/landing.h"
#include "transport/transport.h"

namespace unisono::engine {

/// Messages from so many bytes on are handed over. Below, two copies that overlap take no longer than finding out where memory lies.
inline constexpr std::size_t kHandedOver = 64 << 10;

/// Private ones from so many bytes on are, too: the receiver reads them through the kernel, and the sender writes a part of it to the receiver's memory. What it has written lies in its core's
/// cache, so for shorter ones that does not pay (docs/design/0008), and they go by the link.
inline constexpr std::size_t kHandedOverPrivate = 1 << 20;

/// In the sender's segment, open to the receiver until it says `left`.
struct alignas(64) HandoverRecord : JointRecord {
  std::atomic<std::uint32_t> left{0};  ///< 1: the receiver will not look here again
  std::uint32_t private_source = 0;    ///< 1: the sender's buffer is private
  /// The receiver's buffer, in its segment, or of a private message its landing; 0: there is none. Set before it says "taken".
  std::atomic<std::uint64_t> target{0};
  std::uint64_t source = 0;  ///< the sender's buffer, in its own segment, or its address
};
static_assert(sizeof(HandoverRecord) == 64);

/// One side of it, as of a JointCopy.
class Handover : public JointCopy {
 public:
  static constexpr Side kSender = Side::owner, kReceiver = Side::other;

  /// `record` is filled in, and lives until the receiver has left it. The sender's side cannot copy before open_target().
  Handover(HandoverRecord& record, Side side, const std::byte* from) noexcept
      : JointCopy(record, side), record_(&record), side_(side), private_(record.private_source != 0), from_(from) {}

  /// The receiver's: it is matched, and copies to `to`, no more than `room` bytes. `target`: where the sender may, too; or 0.
  void take(std::byte* to, std::uint64_t room, std::uint64_t target) noexcept;
  /// The sender's: where the receiver's buffer is, once it has been matched with one in shared memory; else 0.
  std::uint64_t target() const noexcept;
  /// The sender's: that memory, here.
  void open_target(std::byte* to) noexcept;
  /// The same of a private message.
  void open_landing(const Landing* to) noexcept { landing_ = to; }

  /// Whether the sender's buffer is private. Then copy_through_kernel() is for copy(): at most so many bytes, at least a slice if there is one; whether any. The receiver's side can as soon as it has taken
  /// the message, the sender's with a landing. `peer`: the other one. `error`: an errno where the receiver could not; what the sender cannot write is left to the receiver.
  bool from_private() const noexcept { return private_; }
  bool copy_through_kernel(std::uint64_t most, transport::SharedView& peer, int& error) noexcept;

  /// All is copied, by whomever. Of the receiver's side: and the sender has not taken its buffer back before.
  bool complete() const noexcept;
  /// The sender has stopped, or the receiver has.
  bool given_up() const noexcept { return stopped(kSender); }
  bool declined() const noexcept { return stopped(kReceiver); }

  /// The sender's: stop, unless it is matched; whether it was not.
  bool withdraw() noexcept;
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
  bool private_;
  const std::byte* from_;
  const Landing* landing_ = nullptr;
};

}  // namespace unisono::engine
