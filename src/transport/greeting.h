#pragma once
/// Drives a Handshake over a non-blocking pipe of bytes, and bounds what a stranger may send.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/handshake.h"
#include "transport/transport.h"

namespace unisono::transport {

/// The bytes under a connection that has not proved anything yet.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual Io send(std::span<const std::byte> bytes) noexcept = 0;
  /// Copies what has arrived without taking it away.
  virtual Io peek(std::span<std::byte> into) noexcept = 0;
  /// Takes away what peek() showed.
  virtual void consume(std::size_t bytes) noexcept = 0;
};

/// A Wire over a stream socket that somebody else owns.
class SocketWire final : public Wire {
 public:
  explicit SocketWire(int fd) : fd_(fd) {}
  Io send(std::span<const std::byte> bytes) noexcept override;
  Io peek(std::span<std::byte> into) noexcept override;
  void consume(std::size_t bytes) noexcept override;

 private:
  int fd_;
};

/// One handshake in progress. It takes exactly the handshake's bytes off the wire: what the peer sends behind them stays there.
class Greeting {
 public:
  enum class State : unsigned char {
    more,      ///< call pump() again when the wire is ready
    done,      ///< peer() is who it says
    rejected,  ///< no proof, or not our protocol: do not try again
    dropped    ///< the wire ended first: may be temporary
  };
  static constexpr std::size_t kMaxBytes = 4096;  ///< more than this from somebody unproved is not a handshake

  explicit Greeting(std::unique_ptr<Handshake> handshake) : handshake_(std::move(handshake)) {}
  State pump(Wire& wire);
  bool wants_write() const noexcept { return !output_.empty(); }
  PeerId peer() const { return handshake_->peer(); }
  const std::string& reason() const noexcept { return reason_; }
  std::size_t received() const noexcept { return received_; }

 private:
  State step(Wire& wire);
  bool flush(Wire& wire);
  State fail(State state, std::string reason);

  std::unique_ptr<Handshake> handshake_;
  std::vector<std::byte> output_;
  std::vector<std::byte> unread_;  ///< taken off the wire, not yet consumed by the handshake
  std::size_t received_ = 0;
  bool proved_ = false;
  bool broken_ = false;  ///< nothing can be sent any more; what came before that may still tell why
  std::string reason_;
};

}  // namespace unisono::transport
