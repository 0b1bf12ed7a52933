#pragma once
/// What travels on a link: a header of 64 bytes (24 of a message of up to 4 KiB), then `length` bytes. Little-endian, as every machine we run on; the
/// handshake refuses others. docs/wire-format.md.

#include <cstddef>
#include <cstdint>

#include "engine/signature.h"

namespace unisono::engine {

enum class FrameKind : std::uint16_t {
  collective = 1,  ///< a message of a plan: group, sequence, slice, ordinal, signature
  message = 2,     ///< point to point: group, sequence = tag
  abort = 3,       ///< payload: an AbortRecord
  goodbye = 4,     ///< the sender leaves in good order; its stream ends after this
  probe = 5,       ///< "this is what I am waiting in": group, sequence, signature; sent when nothing moves for a while
  part = 6,  ///< of the payload of a frame that is cut: group, sequence = its number, place = offset in the payload
  last = 7,  ///< nothing follows on this stream; its sender goes on with others
  /// Rank `sequence` of the group has destroyed it. Place: how many collectives it took part in.
  /// Payload: whom it told itself, a bit a rank.
  leave = 8,
  wait = 9  ///< who waits for whom; payload: a WaitNotice
};

/// As unisono::kAnyTag and kLeastTag: what a receive may ask for, and what programs may send. Below
/// are the library's own, which no receive of any tag meets.
inline constexpr std::int64_t kAnyTag = INT64_MIN, kLeastTag = INT64_MIN + 65536;
inline bool takes_tag(std::int64_t wanted, std::int64_t tag) noexcept {
  return wanted == tag || (wanted == kAnyTag && tag >= kLeastTag);
}

/// In FrameHeader::flags: no payload follows here. It comes in parts, on any of the streams between the two.
inline constexpr std::uint16_t kInParts = 1;
/// In FrameHeader::flags of a message: no payload follows here. It is handed over (handover.h); `place` is the record's, in the sender's segment.
inline constexpr std::uint16_t kByHand = 2;

inline constexpr std::uint32_t kFrameMagic = 0x31534e55;  // "UNS1"
inline constexpr std::uint32_t kBriefMagic = 0x62534e55;  // "UNSb"

struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  FrameKind kind = FrameKind::collective;
  std::uint16_t flags = 0;
  std::uint64_t group = 0;
  std::uint64_t sequence = 0;  ///< of the collective in its group; the tag of a message
  std::uint32_t slice = 0;
  std::uint32_t ordinal = 0;  ///< the how-many-th message of its plan from this sender to this receiver
  Signature signature;
  std::uint64_t length = 0;  ///< of the payload
  std::uint64_t place =
      0;  ///< kInParts: the frame's number, counted from 0 by its sender for each peer; of a part: its offset

  /// Bytes that follow on the stream.
  std::uint64_t following() const noexcept { return (flags & (kInParts | kByHand)) != 0 ? 0 : length; }
};
static_assert(sizeof(FrameHeader) == 64);

/// The header of a short message, in front of its payload: with up to 28 bytes both fit into the cache line that says that something came.
struct BriefHeader {
  static constexpr std::size_t kMost = 4096;  ///< bytes of payload
  std::uint32_t magic, length;
  std::uint64_t group, sequence;
};
static_assert(sizeof(BriefHeader) == 24);

/// Whether a header goes out as a BriefHeader. A reader takes either.
inline bool is_brief(const FrameHeader& h) noexcept {
  return h.kind == FrameKind::message && h.flags == 0 && h.length <= BriefHeader::kMost;
}
inline BriefHeader to_brief(const FrameHeader& h) noexcept {
  return {kBriefMagic, static_cast<std::uint32_t>(h.length), h.group, h.sequence};
}
inline FrameHeader from_brief(const BriefHeader& b) noexcept {
  FrameHeader h;
  h.kind = FrameKind::message;
  h.group = b.group;
  h.sequence = b.sequence;
  h.length = b.length;
  return h;
}
inline std::size_t bytes_of(const FrameHeader& h) noexcept { return is_brief(h) ? sizeof(BriefHeader) : sizeof h; }

}  // namespace unisono::engine
