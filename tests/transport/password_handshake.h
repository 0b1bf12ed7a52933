#pragma once
/// The smallest handshake that can refuse somebody: each side says a password and its name.

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/handshake.h"

namespace unisono::transport::test {

class PasswordHandshake final : public Handshake {
 public:
  PasswordHandshake(PeerId self, std::uint64_t password, bool first) : self_(self), password_(password) {
    if (first) say();
  }
  std::vector<std::byte> take_output() override { return std::exchange(output_, {}); }
  State feed(std::span<const std::byte> input, std::size_t& consumed) override {
    consumed = 0;
    if (input.size() < sizeof(Hello)) return State::more;
    Hello hello;
    std::memcpy(&hello, input.data(), sizeof hello);
    consumed = sizeof hello;
    if (hello.password != password_) {
      reason_ = "wrong password";
      return State::rejected;
    }
    peer_ = {hello.high, hello.low};
    if (!said_) say();
    return State::done;
  }
  PeerId peer() const override { return peer_; }
  std::string reason() const override { return reason_; }

 private:
  struct Hello {
    std::uint64_t password, high, low;
  };
  void say() {
    const Hello hello{password_, self_.high, self_.low};
    output_.resize(sizeof hello);
    std::memcpy(output_.data(), &hello, sizeof hello);
    said_ = true;
  }
  PeerId self_, peer_;
  std::uint64_t password_;
  bool said_ = false;
  std::vector<std::byte> output_;
  std::string reason_;
};

class PasswordFactory final : public HandshakeFactory {
 public:
  explicit PasswordFactory(PeerId self, std::uint64_t password = 42) : self_(self), password_(password) {}
  std::unique_ptr<Handshake> dial(const PeerId&) override {
    return std::make_unique<PasswordHandshake>(self_, password_, true);
  }
  std::unique_ptr<Handshake> accept() override { return std::make_unique<PasswordHandshake>(self_, password_, false); }

 private:
  PeerId self_;
  std::uint64_t password_;
};

}  // namespace unisono::transport::test
