#pragma once
/// Memory for what is read next.

#include <cstddef>
#include <memory>
#include <span>

namespace unisono::engine {

/// Memory that is not filled with zeros first, as all of it is about to be written.
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) : memory_(new std::byte[size]), size_(size), capacity_(size) {}
  std::byte* data() const noexcept { return memory_.get(); }
  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  /// At most capacity().
  void resize(std::size_t size) noexcept { size_ = size; }
  std::span<std::byte> span() const noexcept { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0, capacity_ = 0;
};

}  // namespace unisono::engine
