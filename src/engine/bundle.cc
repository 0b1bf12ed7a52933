#include "engine/bundle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/section.h"

namespace unisono::engine {

using transport::ConstPart;

void Bundle::add(std::unique_ptr<Stream> stream, Deferred& deferred) {
  Stream& added = *stream;
  streams_.push_back(std::move(stream));
  for (OutFrame& frame : std::exchange(waiting_, {})) enqueue(std::move(frame), deferred);
  flush(added, deferred);
}

void Bundle::remove(const Stream& stream) {
  std::erase_if(streams_, [&](const auto& s) { return s.get() == &stream && !is_first(stream); });
}

int Bundle::open() const noexcept {
  return static_cast<int>(std::count_if(streams_.begin(), streams_.end(), [](const auto& s) {
    return s->state() == Stream::State::open && !s->said_last() && !s->heard_last();
  }));
}

std::size_t Bundle::write_now(const FrameHeader& header, ConstPart payload) {
  const bool free = !streams_.empty() && parts_.empty() && !leaving_;
  return free && header.length < sharing_.cut_from ? streams_.front()->write_now(header, payload) : 0;
}

void Bundle::enqueue(OutFrame frame, Deferred& deferred) {
  if (streams_.empty()) {
    waiting_.push_back(std::move(frame));
    return;
  }
  const bool data = frame.header.kind == FrameKind::collective || frame.header.kind == FrameKind::message;
  if (data && frame.header.following() >= sharing_.cut_from && sharing_.streams > 1 && open() > 1)
    cut(std::move(frame));
  else
    streams_.front()->enqueue(std::move(frame));
  flush(*streams_.front(), deferred);
}

/// The head to the first stream, the parts to whoever takes them.
void Bundle::cut(OutFrame frame) {
  const std::uint64_t length = frame.header.length;
  const auto streams = static_cast<std::uint64_t>(std::min(sharing_.streams, open()));
  const std::uint64_t share = std::clamp((length + streams - 1) / streams, sharing_.least, sharing_.most);
  const std::uint64_t pieces = (length + share - 1) / share;
  const std::uint64_t whole = pieces * kPartAlignment, size = (length + whole - 1) / whole * kPartAlignment;
  const auto common = std::make_shared<Cut>();
  common->flag = frame.flag;
  common->completion = std::move(frame.completion);

  OutFrame head;
  head.header = frame.header;
  head.header.flags |= kInParts;
  head.header.place = next_number_++;
  head.cut = common;
  common->left = 1;
  for (std::uint64_t at = 0; at < length; at += size) {
    OutFrame part;
    part.header.kind = FrameKind::part;
    part.header.group = frame.header.group;
    part.header.sequence = head.header.place;
    part.header.place = at;
    part.header.length = std::min(size, length - at);
    part.parts = section(std::span<const ConstPart>(frame.parts), at, part.header.length);
    part.cut = common;
    common->left++;
    parts_.push_back(std::move(part));
  }
  streams_.front()->enqueue(std::move(head));
}

/// By turns, so that streams that are all as fast carry as much.
Stream* Bundle::next_with_room() noexcept {
  const std::size_t used = std::min(streams_.size(), static_cast<std::size_t>(std::max(1, sharing_.streams)));
  for (std::size_t i = 0; i < used; i++) {
    Stream& stream = *streams_[(turn_ + i) % used];
    if (!stream.has_room() || stream.heard_last()) continue;
    turn_ = (turn_ + i + 1) % used;
    return &stream;
  }
  return nullptr;
}

bool Bundle::hand_out(Deferred& deferred) {
  bool moved = false;
  while (!parts_.empty()) {
    Stream* const stream = next_with_room();
    if (stream == nullptr) return moved;
    stream->enqueue(std::move(parts_.front()));
    parts_.pop_front();
    moved |= stream->flush(deferred);
  }
  if (std::exchange(leaving_, false)) {
    for (std::size_t i = 1; i < streams_.size(); i++) streams_[i]->say_last();
    OutFrame goodbye;
    goodbye.header.kind = FrameKind::goodbye;
    streams_.front()->enqueue(std::move(goodbye));
    for (const auto& stream : streams_) moved |= stream->flush(deferred);
  }
  return moved;
}

bool Bundle::flush(Stream& stream, Deferred& deferred) {
  const bool moved = stream.flush(deferred);
  return (parts_.empty() && !leaving_) ? moved : hand_out(deferred) || moved;
}

bool Bundle::idle() const noexcept {
  // Parts wait only where every stream in use has something to write, or is dead.
  return std::all_of(streams_.begin(), streams_.end(),
                     [](const auto& s) { return s->state() != Stream::State::open || s->idle(); });
}

std::string Bundle::describe_ends() const {
  std::string broken, closed;
  for (const auto& s : streams_) {
    if (s->heard_last()) continue;
    if (s->state() == Stream::State::failed)
      broken +=
          fmt::format("{}{} failed: {}", broken.empty() ? "" : "; ", s->link().describe(), std::strerror(s->error()));
    else if (s->state() == Stream::State::closed && closed.empty())
      closed = fmt::format("{} was closed without a goodbye", s->link().describe());
  }
  return broken.empty() || closed.empty() ? broken + closed : fmt::format("{}; {}", broken, closed);
}

void Bundle::say_goodbye(Deferred& deferred) {
  if (streams_.empty()) return;
  leaving_ = true;
  hand_out(deferred);
}

void Bundle::forget(std::uint64_t group, const Completion* only, const Status& status, Deferred& deferred) {
  for (const auto& stream : streams_) stream->forget(group, only, status, deferred);
  drop_from(parts_, group, only, status, deferred);
  drop_from(waiting_, group, only, status, deferred);
  incoming_.forget(group, only, status, deferred);
}

void Bundle::abandon(const Status& status, Deferred& deferred) {
  for (const auto& stream : streams_) stream->abandon(status, deferred);
  abandon_all(parts_, status, deferred);
  abandon_all(waiting_, status, deferred);
}

}  // namespace unisono::engine
