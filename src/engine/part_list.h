#pragma once
/// The pieces of memory that a payload goes to. One, as a message has, takes no memory of its own.

#include <span>
#include <utility>
#include <vector>

#include "transport/transport.h"

namespace unisono::engine {

class PartList {
 public:
  using Part = transport::MutablePart;

  PartList() = default;
  PartList(Part one) noexcept : one_(one), single_(true) {}
  PartList(std::vector<Part> many) noexcept : many_(std::move(many)) {}

  const Part* begin() const noexcept { return single_ ? &one_ : many_.data(); }
  const Part* end() const noexcept { return begin() + size(); }
  std::size_t size() const noexcept { return single_ ? 1 : many_.size(); }
  bool empty() const noexcept { return size() == 0; }
  const Part& operator[](std::size_t i) const noexcept { return begin()[i]; }
  operator std::span<const Part>() const noexcept { return {begin(), size()}; }

 private:
  std::vector<Part> many_;
  Part one_;
  bool single_ = false;
};

}  // namespace unisono::engine
