#pragma once
/// What c10d of torch 2.10 to 2.12 lacks, or calls otherwise.

#include <torch/version.h>

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

namespace unisono::torch_backend {

/// The factor of PREMUL_SUM.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
using PreMulSumSupplement = c10d::NCCLPreMulSumSupplement;
#else
using c10d::PreMulSumSupplement;
#endif

/// Before 2.12 the profiler has no kind of its own for it.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 12
inline constexpr auto kReduceScatterTensorCoalesced = c10d::OpType::COALESCED;
#else
inline constexpr auto kReduceScatterTensorCoalesced = c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED;
#endif

/// What a group is for, as who made it says; before 2.11 options do not have that.
template <class Options>
std::string description_of(const Options& options) {
  if constexpr (requires { options.group_desc; })
    return options.group_desc;
  else
    return {};
}

/// Gives a group the name and the description of `from`.
template <class Options, class Given>
void name_as(Options& options, const Given& from) {
  options.group_name = from.group_name;
  if constexpr (requires { from.group_desc; }) options.group_desc = from.group_desc;
}

}  // namespace unisono::torch_backend
