#pragma once
/// A view of a peer's memory that refuses to write.

#include <span>

#include "transport/transport.h"

namespace unisono::engine::test {

/// A peer's memory that may be written to from here, and then cannot be.
class Unwritable final : public transport::SharedView {
 public:
  Unwritable(transport::SharedView& view, int error) : view_(view), error_(error) {}
  const std::byte* at(std::uint64_t offset, std::uint64_t bytes) const noexcept override {
    return view_.at(offset, bytes);
  }
  std::byte* writable(std::uint64_t offset, std::uint64_t bytes) noexcept override {
    return view_.writable(offset, bytes);
  }
  void map_now(std::uint64_t offset, std::uint64_t bytes, bool write) noexcept override {
    view_.map_now(offset, bytes, write);
  }
  bool reads_memory() const noexcept override { return view_.reads_memory(); }
  int read_memory(std::span<const transport::MutablePart> parts, std::uint64_t from) noexcept override {
    return view_.read_memory(parts, from);
  }
  bool writes_memory() const noexcept override { return true; }
  int write_memory(std::span<const transport::Area>, const std::byte*, std::size_t) noexcept override {
    tries++;
    return error_;
  }
  std::uint64_t address_of(std::uint64_t offset) const noexcept override { return view_.address_of(offset); }
  void wake() noexcept override { view_.wake(); }
  void wake_after_fence() noexcept override { view_.wake_after_fence(); }
  int waits_on() const noexcept override { return view_.waits_on(); }
  bool alive() const noexcept override { return view_.alive(); }
  int tries = 0;

 private:
  transport::SharedView& view_;
  const int error_;
};

}  // namespace unisono::engine::test
