#pragma once
/// A peer's segment, seen from here.

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "base/fd.h"
#include "transport/shm/layout.h"
#include "transport/shm/segment.h"
#include "transport/transport.h"

namespace unisono::transport::shm {

class PeerView final : public SharedView {
 public:
  /// Another process's segment, mapped read-only. Refused when `memfd` is not sealed against shrinking (reading it could
  /// then kill us), has another size than `bytes`, or does not begin as a segment does. `owner`: the process, as the kernel calls it here; 0: it
  /// has no number here.
  static Result<std::shared_ptr<PeerView>> map(const Fd& memfd, std::uint64_t bytes, std::shared_ptr<const Fd> doorbell,
                                               pid_t owner = 0);
  /// A segment of this process: the owner's own mapping.
  static std::shared_ptr<PeerView> of(std::shared_ptr<Segment> segment, std::shared_ptr<const Fd> doorbell);
  ~PeerView() override;
  PeerView(const PeerView&) = delete;
  PeerView& operator=(const PeerView&) = delete;

  const std::byte* at(std::uint64_t offset, std::uint64_t bytes) const noexcept override;
  std::byte* writable(std::uint64_t offset, std::uint64_t bytes) noexcept override;
  void map_now(std::uint64_t offset, std::uint64_t bytes, bool write) noexcept override;
  bool reads_memory() const noexcept override { return owner_ != nullptr || process_ != 0; }
  using SharedView::read_memory;
  int read_memory(std::span<const MutablePart> parts, std::uint64_t from) noexcept override;
  bool writes_memory() const noexcept override { return owner_ != nullptr || writes_; }
  int write_memory(std::span<const Area> areas, const std::byte* from, std::size_t bytes) noexcept override;
  std::uint64_t address_of(std::uint64_t offset) const noexcept override;
  void wake() noexcept override;
  int waits_on() const noexcept override;
  bool alive() const noexcept override;

  void wake_after_fence() noexcept override;
  /// The peer is known to have ended or hung up.
  void mark_gone() noexcept { gone_.store(true, std::memory_order_release); }
  /// The peer's control block for the link that this view belongs to; its `closed` word counts for alive().
  void belong_to(const ControlBlock* theirs) noexcept { theirs_ = theirs; }

 private:
  PeerView(const std::byte* base, std::uint64_t bytes, std::shared_ptr<Segment> owner,
           std::shared_ptr<const Fd> doorbell);
  pid_t whom() noexcept;
  template <class Copy>
  int by_any_thread(Copy&& copy) noexcept;

  Fd memfd_;  ///< of another process, for the second mapping
  std::mutex writable_mutex_;
  std::byte* writable_ = nullptr;
  const std::byte* base_;
  std::uint64_t bytes_;
  std::shared_ptr<Segment> owner_;    ///< null: the mapping is ours to undo
  pid_t process_ = 0;                 ///< whose memory can be read; 0: it cannot
  std::atomic<pid_t> thread_{0};      ///< of it, that the kernel is asked for,
  std::atomic<pid_t> considered_{0};  ///< and the last one that it said rests
  bool writes_ = false;               ///< it can be written to
  std::shared_ptr<const Fd> doorbell_;
  const std::atomic<std::uint32_t>* parked_;
  const ControlBlock* theirs_ = nullptr;
  std::atomic<bool> gone_{false};
};

}  // namespace unisono::transport::shm
