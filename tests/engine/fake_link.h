#pragma once
/// A link whose kernel is two strings.

#include <algorithm>
#include <cstring>
#include <string>

#include "transport/transport.h"

namespace unisono::engine::test {

using transport::ConstPart;
using transport::Io;
using transport::MutablePart;

/// A socket as far as a stream can tell: `input` is what the kernel has, `room` what it takes.
class FakeLink final : public transport::Link {
 public:
  explicit FakeLink(int fd) : fd_(fd) {}
  Io write(std::span<const ConstPart> parts) noexcept override {
    writes++;
    most_parts = std::max(most_parts, parts.size());
    std::size_t bytes = 0;
    for (const ConstPart& p : parts) {
      const std::size_t take = std::min(p.size(), room - bytes);
      output.append(reinterpret_cast<const char*>(p.data()), take);
      bytes += take;
    }
    room -= bytes;
    return {Io::State::ok, bytes, 0};
  }
  Io read(std::span<const MutablePart> parts) noexcept override {
    reads++;
    std::size_t bytes = 0;
    for (const MutablePart& p : parts) {
      const std::size_t take = std::min(p.size(), input.size());
      std::memcpy(p.data(), input.data(), take);
      input.erase(0, take);
      bytes += take;
    }
    return {Io::State::ok, bytes, 0};
  }
  int fd() const noexcept override { return fd_; }
  transport::SharedView* shared() noexcept override { return nullptr; }
  std::string describe() const override { return "fake"; }

  std::string input, output;
  std::size_t room = 0;
  int reads = 0, writes = 0;
  std::size_t most_parts = 0;  ///< of a write

 private:
  int fd_;
};

}  // namespace unisono::engine::test
