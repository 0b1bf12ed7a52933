#include "transport/shm/channel.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

#include "transport/fence.h"

namespace unisono::transport::shm {

namespace {

/// Large transfers become visible in pieces of this size, so that the two sides' copies overlap.
constexpr std::uint64_t kPublishBytes = 64 << 10;
constexpr std::uint64_t kMaxRingBytes = 1ull << 32;
/// What lies so far before the end of a message is not in the caches any more when all is there.
constexpr std::uint64_t kBeyondCaches = 8 << 20;

template <class Parts>
std::uint64_t total(const Parts& parts) noexcept {
  std::uint64_t sum = 0;
  for (const auto& part : parts) sum += part.size();
  return sum;
}

}  // namespace

Result<std::shared_ptr<Channel>> Channel::create(std::shared_ptr<Segment> own, std::uint64_t ring_bytes) {
  auto block = own->allocate(sizeof(ControlBlock));
  if (!block) return block.status();
  new (own->base() + *block) ControlBlock{};
  ring_bytes = std::bit_ceil(std::clamp(ring_bytes, kPage, kMaxRingBytes));
  return std::shared_ptr<Channel>(new Channel(std::move(own), *block, ring_bytes));
}

Channel::Channel(std::shared_ptr<Segment> own, std::uint64_t block, std::uint64_t ring_bytes)
    : own_(std::move(own)), block_(block), ring_bytes_(ring_bytes), owner_(::getpid()) {}

Status Channel::bind(std::shared_ptr<PeerView> view, std::uint64_t their_block) {
  const std::byte* at = view->at(their_block, sizeof(ControlBlock));
  if (!at || their_block < kHeaderBytes || their_block % kLine != 0)
    return Status::authentication(
        fmt::format("the peer's control block at offset {} is not inside its segment", their_block));
  theirs_ = reinterpret_cast<const ControlBlock*>(at);
  view->belong_to(theirs_);
  short_writer_.emplace(mine(), *theirs_);
  short_reader_.emplace(mine(), *theirs_);
  view_ = std::move(view);
  return {};
}

Status Channel::open_ring() {
  auto offset = own_->allocate(ring_bytes_);
  if (!offset) return offset.status();
  ring_offset_ = *offset;
  writer_.emplace(own_->base() + ring_offset_, ring_bytes_, mine(), *theirs_);
  mine().ring_bytes.store(ring_bytes_, std::memory_order_relaxed);
  mine().ring_offset.store(ring_offset_, std::memory_order_release);
  return {};
}

bool Channel::ended() const noexcept {
  return gone_.load(std::memory_order_acquire) || theirs_->closed.load(std::memory_order_acquire) != 0;
}

void Channel::publish_written() noexcept {
  writer_->publish();
  view_->wake();
}

/// Room in the ring. When there is none, says so in `starved` and looks again: either the reader sees the word, or we see its index.
std::optional<std::uint64_t> Channel::room_or_starve(std::uint64_t wanted, bool& unpublished) noexcept {
  auto room = writer_->room(wanted);
  if (!room || *room > 0) return room;
  if (unpublished) publish_written();
  unpublished = false;
  starving_ = true;
  mine().starved.store(1, std::memory_order_relaxed);
  full_fence();
  return writer_->room(wanted);
}

Io Channel::write(std::span<const ConstPart> parts) noexcept {
  if (corrupt_) return {Io::State::failed, 0, EPROTO};
  if (severed_.load(std::memory_order_acquire) || closed_.load(std::memory_order_relaxed) || ended())
    return {Io::State::failed, 0, EPIPE};
  const std::uint64_t bytes = total(parts);
  if (bytes == 0) return {};
  Io io;
  if (short_writer_->put(parts, bytes, written_)) {
    view_->wake();
    io.bytes = bytes;
  } else {
    io = write_to_ring(parts);
  }
  written_ += io.bytes;
  return io;
}

Io Channel::write_to_ring(std::span<const ConstPart> parts) noexcept {
  if (!writer_) {
    if (Status status = open_ring(); !status)
      return {Io::State::failed, 0, status.error_number() ? status.error_number() : ENOMEM};
  }
  if (starving_) mine().starved.store(0, std::memory_order_relaxed);
  starving_ = false;

  std::size_t moved = 0;
  std::uint64_t fresh = 0;  // put, not yet published
  bool unpublished = false;
  for (ConstPart part : parts) {
    while (!part.empty()) {
      const auto room = room_or_starve(part.size(), unpublished);
      if (!room) {
        corrupt_ = true;
        return {Io::State::failed, moved, EPROTO};
      }
      if (!unpublished) fresh = 0;
      if (*room == 0) return {Io::State::ok, moved, 0};
      const std::uint64_t n = std::min({static_cast<std::uint64_t>(part.size()), *room, kPublishBytes - fresh});
      writer_->put(part.data(), n);
      part = part.subspan(n);
      moved += n;
      fresh += n;
      unpublished = fresh < kPublishBytes;
      if (!unpublished) {
        publish_written();
        fresh = 0;
      }
    }
  }
  if (unpublished) publish_written();
  return {Io::State::ok, moved, 0};
}

/// Looks for the peer's ring; false while it has written nothing.
bool Channel::find_ring() noexcept {
  const std::uint64_t offset = theirs_->ring_offset.load(std::memory_order_acquire);
  if (offset == 0) return false;
  const std::uint64_t bytes = theirs_->ring_bytes.load(std::memory_order_relaxed);
  const std::byte* data = std::has_single_bit(bytes) && bytes <= kMaxRingBytes ? view_->at(offset, bytes) : nullptr;
  corrupt_ = corrupt_ || !data;
  if (!data) return false;
  view_->map_now(offset, bytes, false);
  reader_.emplace(data, bytes, mine(), *theirs_);
  return true;
}

void Channel::publish_read() noexcept {
  reader_->publish();
  full_fence();
  if (theirs_->starved.load(std::memory_order_relaxed) != 0) view_->wake_after_fence();
}

Io Channel::read(std::span<const MutablePart> parts) noexcept {
  if (corrupt_) return {Io::State::failed, 0, EPROTO};
  if (severed_.load(std::memory_order_acquire) || closed_.load(std::memory_order_relaxed))
    return {Io::State::closed, 0, 0};
  const bool over = ended();  // before we look for data: what the peer wrote came before it ended
  const bool around = total(parts) >= kBeyondCaches;
  std::size_t moved = 0;
  std::uint64_t fresh = 0;  // taken from the ring, room not yet given back
  for (MutablePart part : parts) {
    while (!part.empty()) {
      const bool from_lane = short_reader_->before(read_) == 0;
      std::uint64_t n = 0;
      if (from_lane) {
        n = short_reader_->get(part.data(), part.size());
        corrupt_ = n == 0;
      } else if (const auto there = readable(part.size())) {
        n = std::min(*there, kPublishBytes - fresh);
        if (n > 0) reader_->get(part.data(), n, around);
        fresh += n;
      }
      if (corrupt_) return {Io::State::failed, moved, EPROTO};
      read_ += n;
      moved += n;
      part = part.subspan(n);
      if (n > 0 && fresh < kPublishBytes) continue;
      if (fresh > 0) publish_read();
      fresh = 0;
      if (n == 0) return {moved == 0 && over ? Io::State::closed : Io::State::ok, moved, 0};
    }
  }
  if (fresh > 0) publish_read();
  return {Io::State::ok, moved, 0};
}

ConstPart Channel::front() noexcept {
  if (corrupt_ || severed_.load(std::memory_order_acquire) || closed_.load(std::memory_order_relaxed)) return {};
  const ConstPart bytes = short_reader_->front(read_);
  front_ = bytes.size();
  return bytes;
}

void Channel::drop_front() noexcept {
  short_reader_->drop_front();
  read_ += front_;
}

bool Channel::has_other_input() noexcept {
  if (corrupt_ || ended() || short_reader_->before(read_) == 0) return true;
  const auto there = readable(1);
  return !there || *there > 0;
}

/// How many of the `wanted` bytes can be read from the ring now. Nothing: the peer's words make no sense (corrupt_ is set).
std::optional<std::uint64_t> Channel::readable(std::uint64_t wanted) noexcept {
  if (!reader_ && !find_ring()) return corrupt_ ? std::nullopt : std::optional<std::uint64_t>(0);
  const auto there = reader_->available(wanted);
  corrupt_ = !there;
  if (!there) return there;
  // The ring may have gone on behind a short write: only now is it certain which one comes next.
  return std::min({wanted, *there, short_reader_->before(read_)});
}

void Channel::close() noexcept {
  if (closed_.load(std::memory_order_relaxed) || ::getpid() != owner_) return;
  closed_.store(true, std::memory_order_release);
  mine().closed.store(1, std::memory_order_release);
  if (view_) view_->wake();
}

void Channel::mark_gone() noexcept {
  gone_.store(true, std::memory_order_release);
  if (view_) view_->mark_gone();
}

void Channel::release() noexcept {
  writer_.reset();
  if (ring_offset_ != 0) own_->release(ring_offset_, ring_bytes_);
  ring_offset_ = 0;
  own_->release(block_, sizeof(ControlBlock));
}

}  // namespace unisono::transport::shm
