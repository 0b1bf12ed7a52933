#pragma once
/// The sets of kernels: one table of functions for each instruction set that the build has a unit for. Values only;
/// nothing here changes after start-up, so tests and benchmarks can hold every set side by side.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/kernels.h"
#include "kernels/unit/table.h"

namespace unisono::kernels {

/// A set of kernels that this processor can run.
struct KernelSet {
  const char* name = "";  ///< as in kernel_set()
  const unit::Table* table = nullptr;

  void reduce(const Reduce& what, std::span<void* const> dst, std::span<const void* const> src,
              std::size_t count) const noexcept {
    table->reduce[static_cast<std::size_t>(what.op)][static_cast<std::size_t>(what.dtype)](
        dst.data(), dst.size(), src.data(), src.size(), count, what.divisor, what.around, what.far);
  }
  void reduce(const Reduce& what, void* dst, void* dst2, std::span<const void* const> src,
              std::size_t count) const noexcept {
    void* const both[] = {dst, dst2};
    reduce(what, std::span<void* const>(both, dst2 == nullptr ? 1 : 2), src, count);
  }
  /// As kernels::widen and kernels::narrow.
  void widen(void* dst, const void* src, DType half, std::size_t count) const noexcept {
    table->widen[static_cast<std::size_t>(half)](static_cast<char*>(dst), static_cast<const char*>(src), count);
  }
  void narrow(void* dst, const void* src, DType half, std::size_t count) const noexcept {
    table->narrow[static_cast<std::size_t>(half)](static_cast<char*>(dst), static_cast<const char*>(src), count);
  }
  /// As kernels::copy.
  void copy(void* dst, const void* src, std::size_t bytes, bool around, bool far) const noexcept;
  /// As kernels::fetch.
  void fetch(void* dst, const void* src, std::size_t bytes, bool around) const noexcept;
};

/// Those that this processor can run, best first; the last is always "scalar", the reference itself.
std::span<const KernelSet> kernel_sets() noexcept;

/// The one called `name` if this processor can run it, otherwise the best; with `name` empty: the best.
const KernelSet& choose_kernel_set(std::string_view name) noexcept;

}  // namespace unisono::kernels
