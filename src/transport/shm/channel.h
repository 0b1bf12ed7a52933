#pragma once
/// One end of a link through memory, without the question of how the two ends met: rings, closing, waking. Used by shm
/// between processes and by inproc between threads.

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "transport/shm/lane.h"
#include "transport/shm/ring.h"
#include "transport/shm/segment.h"
#include "transport/shm/view.h"
#include "transport/transport.h"

namespace unisono::transport::shm {

/// write(), read() and close() by one thread at a time; the marks by any thread.
class Channel {
 public:
  /// Takes a control block from `own`; the ring follows with the first write.
  static Result<std::shared_ptr<Channel>> create(std::shared_ptr<Segment> own, std::uint64_t ring_bytes);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Where our control block is: tell the peer.
  std::uint64_t block() const noexcept { return block_; }
  /// What the peer told us. Before the first read or write.
  Status bind(std::shared_ptr<PeerView> view, std::uint64_t their_block);

  Io write(std::span<const ConstPart> parts) noexcept;
  Io read(std::span<const MutablePart> parts) noexcept;
  /// As Link's.
  ConstPart front() noexcept;
  void drop_front() noexcept;
  bool has_other_input() noexcept;
  /// Tells the peer that no more comes. What was written stays readable for it. Nothing happens in a forked child.
  void close() noexcept;
  bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }
  /// The peer hung up or died: nobody reads our ring any more.
  void mark_gone() noexcept;
  bool gone() const noexcept { return gone_.load(std::memory_order_acquire); }
  /// The peer closed its end itself, as opposed to having died.
  bool peer_closed() const noexcept { return theirs_->closed.load(std::memory_order_acquire) != 0; }
  /// As if this process had been killed: reads end, writes fail.
  void sever() noexcept { severed_.store(true, std::memory_order_release); }
  /// Gives control block and ring back. Only when closed() and gone().
  void release() noexcept;
  SharedView* view() noexcept { return view_.get(); }

 private:
  Channel(std::shared_ptr<Segment> own, std::uint64_t block, std::uint64_t ring_bytes);
  ControlBlock& mine() noexcept { return *reinterpret_cast<ControlBlock*>(own_->base() + block_); }
  Status open_ring();
  bool find_ring() noexcept;
  bool ended() const noexcept;
  std::optional<std::uint64_t> room_or_starve(std::uint64_t wanted, bool& unpublished) noexcept;
  void publish_written() noexcept;
  void publish_read() noexcept;
  Io write_to_ring(std::span<const ConstPart> parts) noexcept;
  std::optional<std::uint64_t> readable(std::uint64_t wanted) noexcept;

  std::shared_ptr<Segment> own_;
  std::uint64_t block_;
  std::uint64_t ring_bytes_;
  std::uint64_t ring_offset_ = 0;
  pid_t owner_;
  std::shared_ptr<PeerView> view_;
  const ControlBlock* theirs_ = nullptr;
  std::optional<RingWriter> writer_;
  std::optional<RingReader> reader_;
  std::optional<LaneWriter> short_writer_;  ///< from bind() on
  std::optional<LaneReader> short_reader_;
  std::uint64_t written_ = 0, read_ = 0;  ///< of the streams, by either way
  std::size_t front_ = 0;                 ///< bytes that front() gave last
  bool corrupt_ = false;                  ///< the peer's words make no sense
  bool starving_ = false;                 ///< our `starved` word is set
  std::atomic<bool> closed_{false}, gone_{false}, severed_{false};
};

/// The Link over a Channel. `hang_up` runs once, at destruction, after the channel was closed.
class MemoryLink final : public Link {
 public:
  MemoryLink(std::shared_ptr<Channel> channel, std::string description, std::function<void()> hang_up)
      : channel_(std::move(channel)), description_(std::move(description)), hang_up_(std::move(hang_up)) {}
  ~MemoryLink() override {
    channel_->close();
    hang_up_();
  }
  Io write(std::span<const ConstPart> parts) noexcept override { return channel_->write(parts); }
  Io read(std::span<const MutablePart> parts) noexcept override { return channel_->read(parts); }
  ConstPart front() noexcept override { return channel_->front(); }
  void drop_front() noexcept override { channel_->drop_front(); }
  bool has_other_input() noexcept override { return channel_->has_other_input(); }
  int fd() const noexcept override { return -1; }
  SharedView* shared() noexcept override { return channel_->view(); }
  std::string describe() const override { return description_; }

 private:
  std::shared_ptr<Channel> channel_;
  std::string description_;
  std::function<void()> hang_up_;
};

}  // namespace unisono::transport::shm
