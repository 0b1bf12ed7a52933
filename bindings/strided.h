#pragma once
/// Arrays whose elements do not lie side by side: copied into a contiguous stage and back. Pure; no Python.

#include <cstddef>
#include <cstdint>

namespace unisono::python {

/// Where the elements of an array are. Element (i0, i1, ...) lies at data + sum(i_k * strides[k] * stride_unit).
struct Layout {
  std::byte* data = nullptr;
  std::int64_t itemsize = 1;
  int ndim = 0;
  const std::int64_t* shape = nullptr;
  const std::int64_t* strides = nullptr;  ///< null: contiguous
  std::int64_t stride_unit = 1;           ///< bytes that a stride counts in: 1 (buffer protocol) or itemsize (DLPack)

  std::int64_t stride(int k) const noexcept { return strides[k] * stride_unit; }
};

/// Elements, or -1 when they are more than 2^63 - 1 bytes.
std::int64_t count_of(const Layout& layout) noexcept;

/// Whether the elements lie side by side in C order (the last index fastest).
bool is_contiguous(const Layout& layout) noexcept;

/// The first byte and the one after the last byte that the array touches; equal when it is empty.
struct Extent {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
  bool overlaps(const Extent& other) const noexcept { return begin < other.end && other.begin < end; }
};
Extent extent_of(const Layout& layout) noexcept;

/// Whether two indices may name one element, as in a broadcast view: such an array cannot be written.
bool may_alias_itself(const Layout& layout) noexcept;

/// Copy the elements, in C order, to `to`, which has room for all of them; and from `from` into the array.
void pack(const Layout& layout, std::byte* to) noexcept;
void unpack(const Layout& layout, const std::byte* from) noexcept;

}  // namespace unisono::python
