/// Which set of kernels runs: chosen once a process, from what the processor has and UNISONO_KERNELS.

#include <array>
#include <cstdlib>
#include <string>

#ifdef __aarch64__
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include "base/log.h"
#include "kernels/kernel_set.h"
#include "kernels/reference.h"

namespace unisono::kernels {

static_assert(unit::kOps == kReduceOps && unit::kTypes == kDTypes);
static_assert(static_cast<int>(ReduceOp::bxor) == 7 && static_cast<int>(ReduceOp::avg) == 1,
              "the order of unit.cc's rows");
static_assert(static_cast<int>(DType::f16) == 0 && static_cast<int>(DType::bf16) == 1 && unit::kHalves == 2);
static_assert(static_cast<int>(DType::f32) == 2 && static_cast<int>(DType::boolean) == 12 &&
                  static_cast<int>(DType::c64) == 13,
              "the order of unit.cc's columns");

namespace base_unit {
extern const unit::Table kTable;
}
namespace avx2_unit {
extern const unit::Table kTable;
}
namespace avx512_unit {
extern const unit::Table kTable;
}
namespace avx512fp16_unit {
extern const unit::ReduceFunction kSumOfF16;
}
namespace neonbf16_unit {
extern const unit::Table kTable;
}

namespace {

/// The sets of this processor in an array of the most there can be.
struct Sets {
  std::array<KernelSet, 5> sets{};
  std::size_t size = 0;

  void add(const char* name, const unit::Table& table) { sets[size++] = {name, &table}; }
};

#ifdef UNISONO_KERNELS_AVX512FP16
/// Those of avx512 with f16 sums of their own.
const unit::Table& avx512fp16_table() noexcept {
  static const unit::Table table = [] {
    unit::Table copy = avx512_unit::kTable;
    copy.reduce[static_cast<int>(ReduceOp::sum)][static_cast<int>(DType::f16)] = avx512fp16_unit::kSumOfF16;
    return copy;
  }();
  return table;
}
#endif

Sets find_sets() noexcept {
  Sets found;
#ifdef __x86_64__
  __builtin_cpu_init();
  [[maybe_unused]] const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
#endif
#ifdef UNISONO_KERNELS_AVX512
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#ifdef UNISONO_KERNELS_AVX512FP16
  if (avx512 && __builtin_cpu_supports("avx512fp16")) found.add("avx512fp16", avx512fp16_table());
#endif
  if (avx512) found.add("avx512", avx512_unit::kTable);
#endif
#ifdef UNISONO_KERNELS_AVX2
  if (avx2) found.add("avx2", avx2_unit::kTable);
#endif
#if defined(UNISONO_KERNELS_BASE) && defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) found.add("sse4", base_unit::kTable);
#elif defined(UNISONO_KERNELS_BASE) && defined(__aarch64__)
#ifdef UNISONO_KERNELS_NEONBF16
  if ((getauxval(AT_HWCAP2) & HWCAP2_BF16) != 0) found.add("neonbf16", neonbf16_unit::kTable);
#endif
  found.add("neon", base_unit::kTable);
#endif
  found.add("scalar", kReferenceTable);
  return found;
}

const KernelSet& set_in_use() noexcept {
  static const KernelSet* const chosen = [] {
    const char* wanted = std::getenv("UNISONO_KERNELS");
    const KernelSet& set = choose_kernel_set(wanted == nullptr ? "" : wanted);
    if (wanted != nullptr && *wanted != '\0' && std::string_view(set.name) != wanted) {
      std::string names;
      for (const KernelSet& s : kernel_sets()) names += std::string(names.empty() ? "" : ", ") + s.name;
      Logger().warn("UNISONO_KERNELS=" + std::string(wanted) + " is not something this processor can run; using " +
                    set.name + " (it can run: " + names + ")");
    }
    return &set;
  }();
  return *chosen;
}

}  // namespace

std::span<const KernelSet> kernel_sets() noexcept {
  static const Sets sets = find_sets();
  return {sets.sets.data(), sets.size};
}

const KernelSet& choose_kernel_set(std::string_view name) noexcept {
  const auto sets = kernel_sets();
  for (const KernelSet& set : sets)
    if (set.name == name) return set;
  return sets.front();
}

void reduce(const Reduce& what, void* dst, void* dst2, std::span<const void* const> src, std::size_t count) noexcept {
  set_in_use().reduce(what, dst, dst2, src, count);
}

void reduce(const Reduce& what, std::span<void* const> dst, std::span<const void* const> src,
            std::size_t count) noexcept {
  set_in_use().reduce(what, dst, src, count);
}

void reduce_reference(const Reduce& what, std::span<void* const> dst, std::span<const void* const> src,
                      std::size_t count) noexcept {
  KernelSet{"scalar", &kReferenceTable}.reduce(what, dst, src, count);
}

void reduce_reference(const Reduce& what, void* dst, void* dst2, std::span<const void* const> src,
                      std::size_t count) noexcept {
  KernelSet{"scalar", &kReferenceTable}.reduce(what, dst, dst2, src, count);
}

void copy(void* dst, const void* src, std::size_t bytes, bool around, bool far) noexcept {
  set_in_use().copy(dst, src, bytes, around, far);
}

void fetch(void* dst, const void* src, std::size_t bytes, bool around) noexcept {
  set_in_use().fetch(dst, src, bytes, around);
}

void widen(void* dst, const void* src, DType half, std::size_t count) noexcept {
  set_in_use().widen(dst, src, half, count);
}

void narrow(void* dst, const void* src, DType half, std::size_t count) noexcept {
  set_in_use().narrow(dst, src, half, count);
}

const char* kernel_set() noexcept { return set_in_use().name; }

}  // namespace unisono::kernels
