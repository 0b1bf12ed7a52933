#include "transport/greeting.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace unisono::transport {

namespace {
Io from_result(ssize_t n, bool zero_is_end) noexcept {
  if (n > 0) return {Io::State::ok, static_cast<std::size_t>(n), 0};
  if (n == 0) return {zero_is_end ? Io::State::closed : Io::State::ok, 0, 0};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {};
  return {Io::State::failed, 0, errno};
}
}  // namespace

Io SocketWire::send(std::span<const std::byte> bytes) noexcept {
  return from_result(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT), false);
}

Io SocketWire::peek(std::span<std::byte> into) noexcept {
  return from_result(::recv(fd_, into.data(), into.size(), MSG_PEEK | MSG_DONTWAIT), true);
}

void SocketWire::consume(std::size_t bytes) noexcept {
  std::array<std::byte, 1024> sink;
  while (bytes > 0) {
    const ssize_t n = ::recv(fd_, sink.data(), std::min(bytes, sink.size()), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the next peek() reports it
    bytes -= static_cast<std::size_t>(n);
  }
}

Greeting::State Greeting::fail(State state, std::string reason) {
  reason_ = std::move(reason);
  return state;
}

/// Whether all that the handshake wanted to say is on the wire.
bool Greeting::flush(Wire& wire) {
  const auto more = handshake_->take_output();
  output_.insert(output_.end(), more.begin(), more.end());
  while (!output_.empty()) {
    const Io io = wire.send(output_);
    broken_ |= io.state != Io::State::ok;
    if (broken_ || io.bytes == 0) return false;
    output_.erase(output_.begin(), output_.begin() + static_cast<std::ptrdiff_t>(io.bytes));
  }
  return true;
}

/// Looks at what has arrived once. `more` with nothing consumed means: wait.
Greeting::State Greeting::step(Wire& wire) {
  std::array<std::byte, 1024> seen;
  const Io io = wire.peek(seen);
  if (io.state == Io::State::closed) return fail(State::dropped, "the connection was closed during the handshake");
  if (io.state == Io::State::failed)
    return fail(State::dropped, fmt::format("the connection failed during the handshake: {}", std::strerror(io.error)));
  if (io.bytes == 0) return State::more;
  received_ += io.bytes;

  const std::size_t before = unread_.size();
  unread_.insert(unread_.end(), seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(io.bytes));
  std::size_t consumed = 0;
  const auto state = handshake_->feed(unread_, consumed);
  consumed = std::min(consumed, unread_.size());
  if (state == Handshake::State::done) {
    if (consumed < before) return fail(State::rejected, "the handshake ended before bytes that belong to it");
    wire.consume(consumed - before);
    received_ -= io.bytes - (consumed - before);
    proved_ = true;
    unread_.clear();
    return State::done;
  }
  wire.consume(io.bytes);
  unread_.erase(unread_.begin(), unread_.begin() + static_cast<std::ptrdiff_t>(consumed));
  if (state == Handshake::State::rejected) return fail(State::rejected, handshake_->reason());
  if (received_ > kMaxBytes) return fail(State::rejected, fmt::format("more than {} bytes without a proof", kMaxBytes));
  return State::more;
}

Greeting::State Greeting::pump(Wire& wire) {
  while (true) {
    const bool flushed = flush(wire);
    if (proved_ && broken_) return fail(State::dropped, "the connection broke during the handshake");
    if (proved_) return flushed ? State::done : State::more;
    const std::size_t before = received_;
    const State state = step(wire);
    if (state == State::rejected) flush(wire);  // the handshake may have a last word
    if (state == State::rejected || state == State::dropped) return state;
    if (state == State::more && received_ == before) return State::more;
  }
}

}  // namespace unisono::transport
