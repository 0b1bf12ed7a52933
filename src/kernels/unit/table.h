#pragma once
/// What a unit hands to the rest: a table of function pointers. A unit is the same source compiled with the flags of
/// one instruction set. This header and those beside it are all that a unit includes, and they hold plain types only:
/// an inline function of a shared header compiled with AVX-512 could otherwise be the copy that the linker keeps for
/// everybody.

#include <stddef.h>
#include <stdint.h>

namespace unisono::kernels::unit {

/// As kernels::reduce, for one op and dtype.
using ReduceFunction = void (*)(void* const* dst, size_t dsts, const void* const* src, size_t k, size_t count,
                                int32_t divisor, uint32_t around, bool far) noexcept;

/// Copies `lines` times kLine bytes. `to` is a multiple of kLine, `from` any address. Stores around the caches are ordered before
/// whatever this thread writes after the return.
using CopyFunction = void (*)(char* to, const char* from, size_t lines) noexcept;
inline constexpr size_t kLine = 64;

/// In the order of unisono::ReduceOp and unisono::DType (checked where the table is used). Null where supports() is
/// false.
inline constexpr int kOps = 8;
inline constexpr int kTypes = 15;
/// `count` elements of f16 or bf16 as f32, or back.
using ConvertFunction = void (*)(char* to, const char* from, size_t count) noexcept;
inline constexpr int kHalves = 2;  ///< f16, bf16: the first of unisono::DType

struct Table {
  ReduceFunction reduce[kOps][kTypes];
  CopyFunction copy_around;  ///< with stores around the caches; null where there are no such stores
  CopyFunction copy_memory;  ///< the same where all comes from memory: what lies in no cache is read fastest so
  CopyFunction fetch;        ///< with loads of vectors, however much it is; null where memcpy does that
  ConvertFunction widen[kHalves], narrow[kHalves];
};

}  // namespace unisono::kernels::unit
