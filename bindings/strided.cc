#include "strided.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

namespace unisono::python {
namespace {

constexpr int kMaxDims = 64;  // as many as NumPy has; arrays.cc refuses more

/// Walk the rows of the last dimension in C order: f(first element of the row).
template <class F>
void for_each_row(const Layout& layout, F f) noexcept {
  std::array<std::int64_t, kMaxDims> index{};
  const int outer = layout.ndim - 1;
  std::byte* at = layout.data;
  for (;;) {
    f(at);
    int k = outer - 1;
    for (; k >= 0; k--) {
      at += layout.stride(k);
      if (++index[k] < layout.shape[k]) break;
      at -= layout.stride(k) * layout.shape[k];
      index[k] = 0;
    }
    if (k < 0) return;
  }
}

// A fixed size lets the compiler turn memcpy into one move.
template <std::size_t kSize>
void copy_elements(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step,
                   std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; i++, to += to_step, from += from_step) std::memcpy(to, from, kSize);
}

void copy_row(std::byte* to, std::int64_t to_step, const std::byte* from, std::int64_t from_step, std::int64_t n,
              std::int64_t itemsize) noexcept {
  if (to_step == itemsize && from_step == itemsize) {
    std::memcpy(to, from, static_cast<std::size_t>(n * itemsize));
    return;
  }
  switch (itemsize) {
    case 1:
      return copy_elements<1>(to, to_step, from, from_step, n);
    case 2:
      return copy_elements<2>(to, to_step, from, from_step, n);
    case 4:
      return copy_elements<4>(to, to_step, from, from_step, n);
    case 8:
      return copy_elements<8>(to, to_step, from, from_step, n);
    default:
      for (std::int64_t i = 0; i < n; i++)
        std::memcpy(to + i * to_step, from + i * from_step, static_cast<std::size_t>(itemsize));
  }
}

}  // namespace

std::int64_t count_of(const Layout& layout) noexcept {
  std::int64_t count = 1, bytes = 0;
  for (int k = 0; k < layout.ndim; k++)
    if (layout.shape[k] == 0) return 0;
  for (int k = 0; k < layout.ndim; k++)
    if (__builtin_mul_overflow(count, layout.shape[k], &count)) return -1;
  return __builtin_mul_overflow(count, layout.itemsize, &bytes) ? -1 : count;
}

bool is_contiguous(const Layout& layout) noexcept {
  if (layout.strides == nullptr) return true;
  for (int k = 0; k < layout.ndim; k++)
    if (layout.shape[k] == 0) return true;
  std::int64_t expected = layout.itemsize;
  for (int k = layout.ndim - 1; k >= 0; k--) {
    if (layout.shape[k] == 1) continue;  // its stride is never used
    if (layout.stride(k) != expected) return false;
    expected *= layout.shape[k];
  }
  return true;
}

Extent extent_of(const Layout& layout) noexcept {
  const std::int64_t count = count_of(layout);
  if (count <= 0) return {layout.data, layout.data};
  if (layout.strides == nullptr) return {layout.data, layout.data + count * layout.itemsize};
  const std::byte* begin = layout.data;
  const std::byte* end = layout.data + layout.itemsize;
  for (int k = 0; k < layout.ndim; k++) {
    const std::int64_t reach = layout.stride(k) * (layout.shape[k] - 1);
    (reach < 0 ? begin : end) += reach;
  }
  return {begin, end};
}

bool may_alias_itself(const Layout& layout) noexcept {
  if (layout.strides == nullptr || count_of(layout) <= 1) return false;
  std::array<int, kMaxDims> order{};
  int dims = 0;
  for (int k = 0; k < layout.ndim; k++)
    if (layout.shape[k] > 1) order[dims++] = k;
  std::sort(order.begin(), order.begin() + dims,
            [&](int a, int b) { return std::abs(layout.stride(a)) < std::abs(layout.stride(b)); });
  // Distinct if every step is longer than all that lies within it.
  std::int64_t within = layout.itemsize;
  for (int i = 0; i < dims; i++) {
    const std::int64_t step = std::abs(layout.stride(order[i]));
    if (step < within) return true;
    within += step * (layout.shape[order[i]] - 1);
  }
  return false;
}

void pack(const Layout& layout, std::byte* to) noexcept {
  if (count_of(layout) <= 0) return;
  const std::int64_t item = layout.itemsize;
  if (layout.ndim == 0 || layout.strides == nullptr) {
    std::memcpy(to, layout.data, static_cast<std::size_t>(count_of(layout) * item));
    return;
  }
  const int last = layout.ndim - 1;
  const std::int64_t n = layout.shape[last], step = layout.stride(last);
  for_each_row(layout, [&](const std::byte* row) {
    copy_row(to, item, row, step, n, item);
    to += n * item;
  });
}

void unpack(const Layout& layout, const std::byte* from) noexcept {
  if (count_of(layout) <= 0) return;
  const std::int64_t item = layout.itemsize;
  if (layout.ndim == 0 || layout.strides == nullptr) {
    std::memcpy(layout.data, from, static_cast<std::size_t>(count_of(layout) * item));
    return;
  }
  const int last = layout.ndim - 1;
  const std::int64_t n = layout.shape[last], step = layout.stride(last);
  for_each_row(layout, [&](std::byte* row) {
    copy_row(row, step, from, item, n, item);
    from += n * item;
  });
}

}  // namespace unisono::python
