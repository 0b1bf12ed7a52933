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
/// A frame of so many bytes is copied into one piece: for the kernel to copy and check a list of two takes longer.
constexpr std::size_t kInOnePart = 512;

/// What one call writes.
struct Batch {
  std::array<ConstPart, kMaxParts> parts;
  std::size_t count = 0, bytes = 0;
  std::array<BriefHeader, kMaxParts> brief;
  std::size_t briefs = 0;

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
    if (is_brief(frame.header)) {
      if (full()) return;
      brief[briefs] = to_brief(frame.header);
      add_behind(std::as_bytes(std::span(&brief[briefs++], 1)));
    } else {
      add_behind(std::as_bytes(std::span(&frame.header, 1)));
    }
    for (const ConstPart& p : frame.parts) {
      if (full()) return;
      add_behind(p);
    }
  }
};

/// Whether a frame is one of the group's, or of the message that `only` stands for.
bool concerns(const FrameHeader& h, const Completion* completion, std::uint64_t group, const Completion* only) {
  const bool data = h.kind == FrameKind::collective || h.kind == FrameKind::message || h.kind == FrameKind::part;
  return data && h.group == group && (only == nullptr || completion == only);
}
}  // namespace

void OutFrame::finish(Deferred& deferred) {
  if (cut && --cut->left > 0) return;
  StepFlag* const done = cut ? cut->flag : flag;
  const auto& waiter = cut ? cut->completion : completion;
  if (done != nullptr) done->store(kStepDone, std::memory_order_release);
  if (waiter) deferred.add(waiter->complete({}));
}

void OutFrame::own() {
  if (!owned.empty()) return;
  for (const ConstPart& p : parts) owned.insert(owned.end(), p.begin(), p.end());
  parts = {ConstPart(owned)};
}

bool drop(OutFrame& frame, std::uint64_t group, const Completion* only, const Status& status, Deferred& deferred) {
  const auto waiter = frame.cut ? frame.cut->completion : frame.completion;
  if (!concerns(frame.header, waiter.get(), group, only)) return false;
  if (waiter) deferred.add(waiter->complete(status));
  const bool begun = frame.cut ? frame.cut->begun : frame.written > 0;
  if (!begun) return true;
  if (frame.cut) frame.cut->flag = nullptr;
  frame.flag = nullptr;
  frame.own();
  return false;
}

void Stream::say_last() {
  if (std::exchange(said_last_, true)) return;
  OutFrame frame;
  frame.header.kind = FrameKind::last;
  enqueue(std::move(frame));
}

void Stream::reject() noexcept {
  state_ = State::failed;
  error_ = EPROTO;
  buffer_begin_ = buffer_end_ = 0;
}

void Stream::note(const Io& io) {
  if (io.state == Io::State::ok) return;
  if (io.state == Io::State::failed) error_ = io.error;
  state_ = error_ != 0 ? State::failed : State::closed;
}

/// Whether it went well.
bool Stream::note_write(const Io& io) noexcept {
  if (io.state == Io::State::ok) return true;
  // A peer that closed may still have left us bytes (its reason for closing): only reading ends the stream. But the
  // system tells why once, and to whoever comes first.
  writable_ = false;
  if (io.error != EPIPE) error_ = io.error;
  return false;
}

std::size_t Stream::write_now(const FrameHeader& header, ConstPart payload) {
  if (!has_room() || state_ != State::open) return 0;
  const BriefHeader brief = to_brief(header);
  const ConstPart front = is_brief(header) ? std::as_bytes(std::span(&brief, 1)) : std::as_bytes(std::span(&header, 1));
  std::array<std::byte, kInOnePart> together;
  std::array parts{front, payload};
  std::size_t count = parts.size();
  if (front.size() + payload.size() <= together.size() && link_->fd() >= 0) {
    std::memcpy(together.data(), front.data(), front.size());
    if (!payload.empty()) std::memcpy(together.data() + front.size(), payload.data(), payload.size());
    parts[0] = std::span(together).first(front.size() + payload.size());
    count = 1;
  }
  const Io io = link_->write(std::span(parts).first(count));
  return note_write(io) ? io.bytes : 0;
}

bool Stream::flush(Deferred& deferred) {
  bool moved = false;
  while (!queue_.empty() && writable_ && state_ == State::open) {
    Batch batch;
    for (auto frame = queue_.begin(); frame != queue_.end() && batch.bytes < kEnough; ++frame) batch.add_rest(*frame);
    const Io io = link_->write(std::span(batch.parts).first(batch.count));
    if (!note_write(io) || io.bytes == 0) return moved;
    moved = true;
    std::size_t bytes = io.bytes;
    while (bytes > 0) {
      OutFrame& front = queue_.front();
      const std::size_t take = std::min(bytes, front.size() - front.written);
      front.written += take;
      bytes -= take;
      if (front.cut) front.cut->begun = true;
      if (front.written < front.size()) break;
      front.finish(deferred);
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
    payload += remaining_;
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

std::size_t Stream::header_bytes() const noexcept {
  std::uint32_t magic = 0;
  if (buffer_end_ - buffer_begin_ >= sizeof magic) std::memcpy(&magic, buffer_.data() + buffer_begin_, sizeof magic);
  return magic == kBriefMagic ? sizeof(BriefHeader) : sizeof(FrameHeader);
}

std::size_t Stream::read_ahead(std::size_t limit) {
  if (buffer_begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + buffer_begin_, buffer_end_ - buffer_begin_);
    buffer_end_ -= buffer_begin_;
    buffer_begin_ = 0;
  }
  // Memory is read without calls into the kernel: there nothing is gained by reading more than is looked for.
  if (link_->fd() >= 0) limit = buffer_.size();
  const MutablePart into(buffer_.data() + buffer_end_, limit - buffer_end_);
  const std::size_t got = take(std::span(&into, 1));
  buffer_end_ += got;
  return got;
}

/// Whether the header that comes next is `wanted`; of what follows it, so much is read ahead as fits with one that comes in time.
Stream::Found Stream::find_header(const FrameHeader& wanted, std::size_t length, int& looks) {
  const auto here = [&] { return buffer_end_ - buffer_begin_; };
  while (true) {
    const std::size_t known = std::min(here(), sizeof wanted);
    if (std::memcmp(buffer_.data() + buffer_begin_, &wanted, known) != 0) return Found::something_else;
    if (known == sizeof wanted) return Found::all;
    if (state_ != State::open) return Found::something_else;
    if (looks == 0) return Found::nothing_yet;
    looks--;
    drained_ = false;
    read_ahead(std::min(sizeof wanted + length, buffer_.size()));
  }
}

Stream::Found Stream::collect(const FrameHeader& wanted, MutablePart into, StepFlag* flag, int looks) {
  if (have_header_) {
    const bool mine = sink_ && sink_->flag == flag && std::memcmp(&header_, &wanted, sizeof wanted) == 0;
    return mine ? collect_rest(looks) : Found::something_else;
  }
  if (const Found found = find_header(wanted, into.size(), looks); found != Found::all) return found;
  header_ = wanted;
  begin_frame(sizeof wanted);
  if (buffer_end_ - buffer_begin_ >= into.size()) {
    // The rule for short ones, which need not pay for a sink.
    if (!into.empty()) std::memcpy(into.data(), buffer_.data() + buffer_begin_, into.size());
    buffer_begin_ += into.size();
    have_header_ = false;
    return Found::all;
  }
  sink_.emplace();
  sink_->parts = {into};
  sink_->flag = flag;
  sink_part_ = sink_offset_ = folded_ = 0;
  bool moved = false;
  take_read_ahead(moved);
  return collect_rest(looks);
}

Stream::Found Stream::collect_rest(int looks) {
  while (remaining_ > 0) {
    drained_ = false;
    if (const std::size_t got = take_payload(); got > 0)
      pass(got);
    else if (looks-- <= 0 || state_ != State::open)
      return Found::a_part;
  }
  have_header_ = false;
  sink_.reset();
  return Found::all;
}

bool Stream::read_header(bool& moved) {
  while (buffer_end_ - buffer_begin_ < header_bytes()) {
    if (read_ahead(sizeof(FrameHeader)) == 0) return false;
    moved = true;
  }
  const std::byte* const front = buffer_.data() + buffer_begin_;
  const std::size_t length = header_bytes();
  if (length == sizeof(BriefHeader)) {
    BriefHeader brief;
    std::memcpy(&brief, front, sizeof brief);
    header_ = from_brief(brief);
  } else {
    std::memcpy(&header_, front, sizeof header_);
  }
  if (header_.magic != kFrameMagic || header_.length > (std::uint64_t{1} << 46)) {
    reject();
    return false;
  }
  begin_frame(length);
  return true;
}

/// `header_`, the next `bytes` that were read ahead, is that of the frame which is read now.
void Stream::begin_frame(std::size_t bytes) noexcept {
  buffer_begin_ += bytes;
  have_header_ = true;
  (header_.kind == FrameKind::part ? came_parts_ : came_others_) = true;
  asked_ = 0;
  remaining_ = header_.following();
}

Stream::Brief Stream::find_brief(std::uint64_t group, std::uint64_t tag, int looks, ConstPart& payload) noexcept {
  if (have_header_ || buffer_begin_ != buffer_end_ || state_ != State::open) return Brief::something_else;
  for (; looks > 0; looks--) {
    const ConstPart front = link_->front();
    if (front.empty()) continue;
    BriefHeader header;
    if (front.size() < sizeof header) return Brief::something_else;
    std::memcpy(&header, front.data(), sizeof header);
    payload = front.subspan(sizeof header);
    const bool wanted = header.magic == kBriefMagic && header.group == group && header.sequence == tag;
    return wanted && header.length == payload.size() ? Brief::here : Brief::something_else;
  }
  return link_->has_other_input() ? Brief::something_else : Brief::nothing_yet;
}

/// So many bytes of the payload have come.
void Stream::pass(std::size_t bytes) {
  remaining_ -= bytes;
  for (const PartList& parts = sink_->parts; sink_part_ < parts.size();) {
    const std::size_t take = std::min(parts[sink_part_].size() - sink_offset_, bytes);
    sink_offset_ += take;
    bytes -= take;
    if (sink_offset_ < parts[sink_part_].size()) return;
    sink_part_++;
    sink_offset_ = 0;
  }
  if (!sink_->fold || sink_->parts.empty()) return;
  const MutablePart piece = sink_->parts[0];
  sink_->fold->add(folded_, piece);
  folded_ += piece.size();
  expect_piece();
}

/// The next piece of a payload that is reduced as it comes has room.
void Stream::expect_piece() {
  sink_part_ = sink_offset_ = 0;
  sink_->parts = PartList();
  if (remaining_ == 0) return;
  if (piece_.size() == 0) piece_ = Buffer(Fold::piece_bytes());
  sink_->parts = piece_.span().first(std::min<std::uint64_t>(piece_.size(), remaining_));
}

/// Payload that came with the header.
void Stream::take_read_ahead(bool& moved) {
  while (remaining_ > 0 && buffer_begin_ < buffer_end_) {
    std::size_t bytes = std::min<std::uint64_t>(remaining_, buffer_end_ - buffer_begin_);
    if (sink_part_ < sink_->parts.size()) {
      const MutablePart to = sink_->parts[sink_part_].subspan(sink_offset_);
      bytes = std::min(bytes, to.size());
      std::memcpy(to.data(), buffer_.data() + buffer_begin_, bytes);
    }
    buffer_begin_ += bytes;
    pass(bytes);
    moved = true;
  }
}

/// Payload from the link to where it belongs; how much. What is beyond the parts is dropped.
std::size_t Stream::take_payload() {
  const auto first = [&](MutablePart p) { return p.first(std::min<std::uint64_t>(p.size(), remaining_)); };
  if (sink_part_ == sink_->parts.size()) {
    std::array<std::byte, 16384> dropped;
    const MutablePart into = first(dropped);
    return take(std::span(&into, 1));
  }
  const MutablePart front = first(sink_->parts[sink_part_].subspan(sink_offset_));
  if (front.size() == remaining_) return take(std::span(&front, 1));
  std::array<MutablePart, kMaxParts> parts{front};
  std::size_t count = 1, room = front.size();
  for (std::size_t i = sink_part_ + 1; i < sink_->parts.size() && count < kMaxParts && room < remaining_; i++) {
    const MutablePart part = sink_->parts[i];
    if (part.empty()) continue;
    parts[count++] = part.first(std::min<std::uint64_t>(part.size(), remaining_ - room));
    room += part.size();
  }
  return take(std::span(parts.data(), count));
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
    folded_ = 0;
    if (sink_->fold) expect_piece();
    pass(0);
  }
  take_read_ahead(moved);
  while (remaining_ > 0) {
    const std::size_t got = take_payload();
    if (got == 0) return false;
    moved = true;
    pass(got);
  }
  have_header_ = false;
  moved = true;
  Sink sink = std::move(*sink_);
  sink_.reset();
  handler.on_payload(*this, header_, sink);
  return true;
}

void Stream::forget(std::uint64_t group, const Completion* only, const Status& status, Deferred& deferred) {
  drop_from(queue_, group, only, status, deferred);
  if (sink_ && have_header_ && concerns(header_, sink_->completion.get(), group, only)) {
    if (sink_->completion) deferred.add(sink_->completion->complete(status));
    *sink_ = Sink{};
    sink_part_ = sink_offset_ = 0;
  }
}

}  // namespace unisono::engine
