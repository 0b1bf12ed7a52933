/// A connection that ends at each moment of a handshake: the one who waits hears of it at once.

#include "transport/greeting.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "password_handshake.h"

namespace unisono::transport::test {
namespace {

/// Delivers what was given to it, and refuses to send.
class BrokenWire final : public Wire {
 public:
  explicit BrokenWire(std::vector<std::byte> arrived, Io end) : arrived_(std::move(arrived)), end_(end) {}
  Io send(std::span<const std::byte>) noexcept override { return {Io::State::failed, 0, ECONNRESET}; }
  Io peek(std::span<std::byte> into) noexcept override {
    if (arrived_.empty()) return end_;
    std::copy(arrived_.begin(), arrived_.end(), into.begin());
    return {Io::State::ok, arrived_.size(), 0};
  }
  void consume(std::size_t bytes) noexcept override {
    arrived_.erase(arrived_.begin(), arrived_.begin() + static_cast<std::ptrdiff_t>(bytes));
  }

 private:
  std::vector<std::byte> arrived_;
  Io end_;
};

Greeting greeting(bool first) { return Greeting(std::make_unique<PasswordHandshake>(PeerId{1, 2}, 42, first)); }

std::vector<std::byte> hello(std::uint64_t password) {
  return PasswordHandshake(PeerId{3, 4}, password, true).take_output();
}

TEST(Greeting, BreaksBehindTheOtherSidesProof) {
  BrokenWire wire(hello(42), Io{});  // accepted, proved, and the answer cannot be sent
  Greeting accepted = greeting(false);
  EXPECT_EQ(accepted.pump(wire), Greeting::State::dropped);
  EXPECT_EQ(accepted.reason(), "the connection broke during the handshake");
}

TEST(Greeting, BreaksBeforeTheFirstWord) {
  BrokenWire wire({}, Io{Io::State::closed, 0, 0});
  Greeting dialed = greeting(true);
  EXPECT_EQ(dialed.pump(wire), Greeting::State::dropped);
  EXPECT_EQ(dialed.reason(), "the connection was closed during the handshake");
}

TEST(Greeting, ARefusalThatCameBeforeTheEndIsHeard) {
  BrokenWire wire(hello(43), Io{Io::State::closed, 0, 0});
  Greeting accepted = greeting(false);
  EXPECT_EQ(accepted.pump(wire), Greeting::State::rejected);
  EXPECT_EQ(accepted.reason(), "wrong password");
}

TEST(Greeting, BothSidesOverASocket) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  SocketWire left(ends[0]), right(ends[1]);
  Greeting dialed = greeting(true), accepted = greeting(false);
  EXPECT_EQ(dialed.pump(left), Greeting::State::more);
  EXPECT_EQ(accepted.pump(right), Greeting::State::done);
  EXPECT_EQ(dialed.pump(left), Greeting::State::done);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace unisono::transport::test
