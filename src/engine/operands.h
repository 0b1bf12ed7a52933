#pragma once
/// Where the operands of a step lie.

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace unisono::engine {

/// Room for so many pointers, on the stack unless they are unusually many.
class Operands {
 public:
  explicit Operands(std::size_t count)
      : many_(count > few_.size() ? count : 0), all_(many_.empty() ? std::span<void*>(few_).first(count) : many_) {}
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;

  std::span<void*> all() noexcept { return all_; }

 private:
  std::array<void*, 32> few_;
  std::vector<void*> many_;
  std::span<void*> all_;
};

}  // namespace unisono::engine
