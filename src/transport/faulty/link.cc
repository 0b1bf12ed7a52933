#include "transport/faulty/link.h"

#include <algorithm>
#include <array>
#include <cerrno>

namespace unisono::transport::faulty {

namespace {

using namespace std::chrono_literals;

/// More than this is not held back: the link is full, as a real one would be.
constexpr std::size_t kMaxHeld = 1 << 20;
/// When the inner link takes nothing, when to ask it again.
constexpr Duration kAskAgain = 500us;

template <class Part>
std::size_t total(std::span<const Part> parts) noexcept {
  std::size_t sum = 0;
  for (const auto& part : parts) sum += part.size();
  return sum;
}

/// The first `limit` bytes of `parts`.
template <class Part>
std::vector<Part> clip(std::span<const Part> parts, std::size_t limit) {
  std::vector<Part> clipped;
  for (const auto& part : parts) {
    if (limit == 0) break;
    const std::size_t n = std::min(part.size(), limit);
    if (n > 0) clipped.push_back(part.first(n));
    limit -= n;
  }
  return clipped;
}

}  // namespace

void Held::hold(std::vector<std::byte> bytes, TimePoint due) {
  bytes_ += bytes.size();
  last_due_ = std::max(last_due_, due);  // no piece overtakes another
  pieces_.push_back({std::move(bytes), 0, last_due_});
}

void Held::flush(TimePoint now) noexcept {
  while (!pieces_.empty() && failure.state == Io::State::ok && pieces_.front().due <= now) {
    Piece& piece = pieces_.front();
    const ConstPart part[1] = {ConstPart(piece.bytes).subspan(piece.sent)};
    const Io io = inner->write(part);
    if (io.state == Io::State::ok && io.bytes == 0) {
      ask_again_ = saturating_add(now, kAskAgain);
      return;
    }
    if (io.state != Io::State::ok) failure = io;
    piece.sent += io.bytes;
    bytes_ -= io.bytes;
    if (piece.sent == piece.bytes.size()) pieces_.pop_front();
  }
  if (failure.state != Io::State::ok) pieces_.clear();
  if (abandoned_ && pieces_.empty()) inner.reset();
}

TimePoint Held::next_flush() const noexcept {
  return pieces_.empty() ? TimePoint::max() : std::max(pieces_.front().due, ask_again_);
}

void Held::abandon() noexcept {
  abandoned_ = true;
  if (pieces_.empty()) inner.reset();
}

/// Often one byte, seldom all: at least one, for 0 means "would block" and nobody would be woken.
std::size_t FaultyLink::shorten(std::size_t bytes) noexcept {
  if (!faults_.partial || bytes == 0) return bytes;
  switch (random_.below(4)) {
    case 0:
      return 1;
    case 1:
      return bytes;
    default:
      return 1 + random_.below(std::min<std::size_t>(bytes, 4096));
  }
}

Io FaultyLink::pass_on(std::span<const ConstPart> parts, std::size_t limit) noexcept {
  const auto clipped = clip(parts, limit);
  if (faults_.max_delay <= Duration::zero()) return held_->inner->write(clipped);
  if (held_->failure.state != Io::State::ok) return held_->failure;
  if (held_->bytes() >= kMaxHeld) return {};
  std::vector<std::byte> copy;
  copy.reserve(limit);
  for (const auto& part : clipped) copy.insert(copy.end(), part.begin(), part.end());
  const auto delay =
      Duration(static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(faults_.max_delay.count()) + 1)));
  held_->hold(std::move(copy), saturating_add(clock_.now(), delay));
  return {Io::State::ok, limit, 0};
}

Io FaultyLink::write(std::span<const ConstPart> parts) noexcept {
  if (cut_) return {Io::State::failed, 0, ECONNRESET};
  std::size_t limit = shorten(total(parts));
  if (limit == 0) return {};
  if (faults_.cut_after_bytes > 0) {
    if (written_ >= faults_.cut_after_bytes) {
      cut_ = true;
      return {Io::State::failed, 0, ECONNRESET};
    }
    limit = std::min<std::size_t>(limit, faults_.cut_after_bytes - written_);
  }
  if (faults_.black_hole_after_bytes > 0) {
    if (written_ >= faults_.black_hole_after_bytes) return {Io::State::ok, limit, 0};
    limit = std::min<std::size_t>(limit, faults_.black_hole_after_bytes - written_);
  }
  const Io io = pass_on(parts, limit);
  written_ += io.bytes;
  return io;
}

Io FaultyLink::read(std::span<const MutablePart> parts) noexcept {
  if (cut_) return {Io::State::failed, 0, ECONNRESET};
  if (faults_.black_hole_after_bytes > 0 && written_ >= faults_.black_hole_after_bytes) {
    std::array<std::byte, 4096> sink;  // taken away, so that a descriptor does not stay ready for ever
    const MutablePart part[1] = {sink};
    held_->inner->read(part);
    return {};
  }
  const std::size_t limit = shorten(total(parts));
  return limit == 0 ? held_->inner->read({}) : held_->inner->read(clip(parts, limit));
}

}  // namespace unisono::transport::faulty
