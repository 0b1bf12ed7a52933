#pragma once
/// Tensors as memory: element types, rows of tensors, staging for what is not contiguous.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <unisono/types.hpp>
#include <vector>

namespace unisono::torch_backend {

/// How unisono sees elements of a tensor: `per_element` units of `dtype` for each.
struct Elements {
  DType dtype = DType::u8;
  std::int64_t per_element = 1;
};

/// For reductions: real types as themselves, complex ones as pairs of reals. Throws for types that cannot be reduced (8-bit floats,
/// quantised), and for an `op` that is not defined for them; `what` (the operation) opens the text.
Elements elements_to_reduce(at::ScalarType type, const c10d::ReduceOp& op, const char* what);
/// For moving: any type; those that unisono has no name for as bytes.
Elements elements_to_move(at::ScalarType type);
/// PREMUL_SUM is a sum of what was multiplied before.
ReduceOp reduce_op(const c10d::ReduceOp& op, const char* what);

/// Throws unless `t` is a dense CPU tensor.
void check_dense(const at::Tensor& t, const char* what);
/// Throws unless all are dense CPU tensors of one type.
void check_same_type(at::TensorList tensors, const at::Tensor& like, const char* what);
/// Throws unless each element of `t` has its own memory, so that it can be written.
void check_writable(const at::Tensor& t, const char* what);

/// `t` in logical (row-major) order, without lazy conjugation or negation; `t` itself when it is that already.
at::Tensor packed(const at::Tensor& t);
bool is_packed(const at::Tensor& t);
/// Packed memory to receive what belongs into `t`: `t` itself, or new memory of its shape.
at::Tensor landing_for(const at::Tensor& t);
/// Copy from a landing, if it is not the tensor itself. Without gradients.
void settle_into(const at::Tensor& t, const at::Tensor& landing);

/// The packed tensors of `list` as one flat tensor that shares their memory, when they lie one behind the other in one storage
/// (chunk(), split(), unbind()); otherwise an undefined tensor.
at::Tensor adjoining(at::TensorList list);
/// One behind the other: adjoining() or a copy.
at::Tensor joined(at::TensorList list);
/// Tensors of one shape as one with a dimension more: adjoining() or a copy.
at::Tensor stacked(at::TensorList list);
/// adjoining(), or new flat memory for all of them.
at::Tensor joined_landing(at::TensorList list);
/// Copy from joined_landing()'s memory into the tensors, where they are not that memory.
void settle_into(at::TensorList list, const at::Tensor& landing);

std::vector<std::int64_t> sizes_of(at::TensorList list);
bool all_equal(const std::vector<std::int64_t>& sizes);

}  // namespace unisono::torch_backend
