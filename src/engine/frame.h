#pragma once
/// What travels on a link: a header of 64 bytes, then `length` bytes. Little-endian, as every machine we run on; the
/// handshake refuses others. docs/wire-format.md.

#include <cstdint>

#include "engine/signature.h"

namespace unisono::engine {

enum class FrameKind : std::uint32_t {
  collective = 1,  ///< a message of a plan: group, sequence, slice, ordinal, signature
  message = 2,     ///< point to point: group, sequence = tag
  abort = 3,       ///< payload: an AbortRecord
  goodbye = 4,     ///< the sender leaves in good order; its stream ends after this
  probe = 5        ///< "this is what I am waiting in": group, sequence, signature; sent when nothing moves for a while
};

inline constexpr std::uint32_t kFrameMagic = 0x31534e55;  // "UNS1"

struct FrameHeader {
  std::uint32_t magic = kFrameMagic;
  FrameKind kind = FrameKind::collective;
  std::uint64_t group = 0;
  std::uint64_t sequence = 0;  ///< of the collective in its group; the tag of a message
  std::uint32_t slice = 0;
  std::uint32_t ordinal = 0;  ///< the how-many-th message of its plan from this sender to this receiver
  Signature signature;
  std::uint64_t length = 0;
  std::uint64_t reserved = 0;
};
static_assert(sizeof(FrameHeader) == 64);

}  // namespace unisono::engine
