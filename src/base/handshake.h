#pragma once
/// Who a process is, and the seam through which a connection proves it. Transports move the bytes of a handshake;
/// rendezvous/ says what they mean.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace unisono {

/// Who a process is: random, made once per Context, the same in all its groups.
struct PeerId {
  std::uint64_t high = 0, low = 0;
  friend auto operator<=>(const PeerId&, const PeerId&) = default;
};
PeerId random_peer_id();               ///< from the kernel's random source
std::string to_string(const PeerId&);  ///< 32 hexadecimal digits
Result<PeerId> parse_peer_id(std::string_view);

/// What a connection proves before it carries a byte. Sans-I/O: the transport moves the bytes. One object a connection.
class Handshake {
 public:
  enum class State : std::uint8_t { more, done, rejected };
  virtual ~Handshake() = default;
  /// Bytes to send now (cleared by the call). May be non-empty also after done.
  virtual std::vector<std::byte> take_output() = 0;
  /// Feed received bytes; consumes no more than it needs and says how many.
  virtual State feed(std::span<const std::byte> input, std::size_t& consumed) = 0;
  /// After done: who is on the other side.
  virtual PeerId peer() const = 0;
  /// After rejected: why.
  virtual std::string reason() const = 0;
};

/// Makes handshakes; given to a transport when it is made. Thread-safety: any thread.
class HandshakeFactory {
 public:
  virtual ~HandshakeFactory() = default;
  virtual std::unique_ptr<Handshake> dial(const PeerId& to) = 0;
  virtual std::unique_ptr<Handshake> accept() = 0;
};

}  // namespace unisono
