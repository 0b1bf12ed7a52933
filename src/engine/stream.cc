#include "engine/stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace unisono::engine {

using transport::ConstPart;
using transport::Io;
using transport::MutablePart;

namespace {
constexpr std::size_t kMaxParts = 64;  // iovecs a call
/// Reading stops behind so much payload: whoever reduces it finds it in the caches.
constexpr std::size_t kTurn = 1 << 20;
/// No further frame is added to a call that writes so much; a frame that is a little longer is not cut.
constexpr std::size_t kEnough = 1 << 20, kMaxWrite = 2 * kEnough;

/// What one call writes.
struct Batch {
  std::array<ConstPart, kMaxParts> parts;
  std::size_t count = 0, bytes = 0;

  bool full() const { return count == kMaxParts || bytes == kMaxWrite; }
  void add(ConstPart part) {
    if (full() || part.empty()) return;
    part = part.first(std::min(part.size(), kMaxWrite - bytes));
    parts[count++] = part;
    bytes += part.size();
  }
  /// The unwritten rest of a frame.
  void add_rest(const OutFrame& frame) {
    std::size_t skip = frame.written;
    const auto add_behind = [&](ConstPart p) {
      const std::size_t passed = std::min(skip, p.size());
      skip -= passed;
      add(p.subspan(passed));
    };
    add_behind(std::as_bytes(std::span(&frame.header, 1)));
    for (const ConstPart& p : frame.parts) {
      if (full()) return;
      add_behind(p);
    }
  }
};
}  // namespace

void Stream::note(const Io& io) {
  if (io.state == Io::State::ok) return;
  state_ = io.state == Io::State::closed ? State::closed : State::failed;
  error_ = io.error;
}

bool Stream::flush(Deferred& deferred) {
  bool moved = false;
  while (!queue_.empty() && writable_ && state_ == State::open) {
    Batch batch;
    for (auto frame = queue_.begin(); frame != queue_.end() && batch.bytes < kEnough; ++frame) batch.add_rest(*frame);
    const Io io = link_->write(std::span(batch.parts).first(batch.count));
    if (io.state != Io::State::ok) {
      // A peer that closed may still have left us bytes (its reason for closing): only reading ends the stream.
      writable_ = false;
      return moved;
    }
    if (io.bytes == 0) return moved;
    moved = true;
    std::size_t bytes = io.bytes;
    while (bytes > 0) {
      OutFrame& front = queue_.front();
      const std::size_t take = std::min(bytes, sizeof(FrameHeader) + front.header.length - front.written);
      front.written += take;
      bytes -= take;
      if (front.written < sizeof(FrameHeader) + front.header.length) break;
      if (front.flag != nullptr) front.flag->store(kStepDone, std::memory_order_release);
      if (front.completion) deferred.add(front.completion->complete({}));
      queue_.pop_front();
    }
    if (io.bytes < batch.bytes && link_->fd() >= 0) return moved;  // full: asking again would be a call for nothing
  }
  return moved;
}

bool Stream::read(FrameHandler& handler) {
  bool moved = false;
  drained_ = false;
  std::uint64_t payload = 0;
  // A bounded number of frames a turn, so that one busy peer does not starve the others.
  for (int frames = 0; frames < 16 && payload < kTurn; frames++) {
    if (!have_header_ && !read_header(moved)) break;
    payload += header_.length;
    if (!read_payload(handler, moved)) break;
  }
  return moved;
}

/// Bytes that the link had for `parts`; 0 at its end, too.
std::size_t Stream::take(std::span<const MutablePart> parts) {
  if (state_ != State::open || drained_) return 0;
  const Io io = link_->read(parts);
  note(io);
  if (io.state != Io::State::ok) return 0;
  // A socket that had less than was asked for is empty: asking again would be a call for nothing. Memory may just end there.
  std::size_t room = 0;
  for (const MutablePart& p : parts) room += p.size();
  drained_ = io.bytes < room && link_->fd() >= 0;
  return io.bytes;
}

bool Stream::read_header(bool& moved) {
  while (buffer_end_ - buffer_begin_ < sizeof(FrameHeader)) {
    if (buffer_begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + buffer_begin_, buffer_end_ - buffer_begin_);
      buffer_end_ -= buffer_begin_;
      buffer_begin_ = 0;
    }
    // Memory is read without calls into the kernel: there nothing is gained by reading ahead.
    const std::size_t limit = link_->fd() >= 0 ? buffer_.size() : sizeof(FrameHeader);
    const MutablePart into(buffer_.data() + buffer_end_, limit - buffer_end_);
    const std::size_t got = take(std::span(&into, 1));
    if (got == 0) return false;
    buffer_end_ += got;
    moved = true;
  }
  std::memcpy(&header_, buffer_.data() + buffer_begin_, sizeof header_);
  buffer_begin_ += sizeof header_;
  if (header_.magic != kFrameMagic || header_.length > (std::uint64_t{1} << 46)) {
    state_ = State::failed;
    error_ = EPROTO;
    return false;
  }
  have_header_ = true;
  asked_ = 0;
  remaining_ = header_.length;
  return true;
}

bool Stream::read_payload(FrameHandler& handler, bool& moved) {
  if (!sink_) {
    sink_ = handler.on_frame(*this, header_);
    if (!sink_) {
      // Bytes in memory wake nobody who goes to sleep now: not before the frame is taken.
      moved |= patient() && link_->fd() < 0;
      asked_++;
      return false;
    }
    sink_part_ = sink_offset_ = 0;
  }
  std::array<std::byte, 16384> dropped;
  while (remaining_ > 0) {
    std::array<MutablePart, kMaxParts> parts;
    std::size_t count = 0, room = 0;
    for (std::size_t i = sink_part_; i < sink_->parts.size() && count < kMaxParts && room < remaining_; i++) {
      MutablePart p = sink_->parts[i];
      if (i == sink_part_) p = p.subspan(sink_offset_);
      p = p.first(std::min<std::uint64_t>(p.size(), remaining_ - room));
      if (p.empty()) continue;
      parts[count++] = p;
      room += p.size();
    }
    if (count == 0) parts[count++] = MutablePart(dropped).first(std::min<std::uint64_t>(dropped.size(), remaining_));
    std::size_t got = 0;
    if (buffer_begin_ < buffer_end_) {
      got = std::min(parts[0].size(), buffer_end_ - buffer_begin_);
      std::memcpy(parts[0].data(), buffer_.data() + buffer_begin_, got);
      buffer_begin_ += got;
    } else {
      got = take(std::span(parts.data(), count));
      if (got == 0) return false;
    }
    moved = true;
    remaining_ -= got;
    while (sink_part_ < sink_->parts.size() && got > 0) {
      const std::size_t left = sink_->parts[sink_part_].size() - sink_offset_;
      const std::size_t take = std::min(left, got);
      sink_offset_ += take;
      got -= take;
      if (sink_offset_ == sink_->parts[sink_part_].size()) sink_part_++, sink_offset_ = 0;
    }
  }
  have_header_ = false;
  moved = true;
  Sink sink = std::move(*sink_);
  sink_.reset();
  handler.on_payload(*this, header_, sink);
  return true;
}

void Stream::forget(std::uint64_t group, const Completion* only, const Status& status, Deferred& deferred) {
  const auto concerns = [&](const FrameHeader& h, const std::shared_ptr<Completion>& c) {
    if (h.group != group || (h.kind != FrameKind::collective && h.kind != FrameKind::message)) return false;
    return only == nullptr || c.get() == only;
  };
  for (auto it = queue_.begin(); it != queue_.end();) {
    if (!concerns(it->header, it->completion)) {
      ++it;
      continue;
    }
    if (it->completion) deferred.add(it->completion->complete(status));
    it->completion.reset();
    it->flag = nullptr;
    if (it->written == 0) {
      it = queue_.erase(it);
      continue;
    }
    // The peer has the header: it must get all that the header promised. Keep a copy, the caller's memory is going away.
    if (it->owned.empty()) {
      for (const ConstPart& p : it->parts) it->owned.insert(it->owned.end(), p.begin(), p.end());
      it->parts = {ConstPart(it->owned)};
    }
    ++it;
  }
  if (sink_ && have_header_ && concerns(header_, sink_->completion)) {
    if (sink_->completion) deferred.add(sink_->completion->complete(status));
    *sink_ = Sink{};
    sink_part_ = sink_offset_ = 0;
  }
}

}  // namespace unisono::engine
