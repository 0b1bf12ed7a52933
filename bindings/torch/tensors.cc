#include "tensors.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

namespace unisono::torch_backend {
namespace {

std::optional<DType> named(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return DType::f16;
    case at::kBFloat16:
      return DType::bf16;
    case at::kFloat:
      return DType::f32;
    case at::kDouble:
      return DType::f64;
    case at::kChar:
      return DType::i8;
    case at::kShort:
      return DType::i16;
    case at::kInt:
      return DType::i32;
    case at::kLong:
      return DType::i64;
    case at::kByte:
      return DType::u8;
    case at::kUInt16:
      return DType::u16;
    case at::kUInt32:
      return DType::u32;
    case at::kUInt64:
      return DType::u64;
    case at::kBool:
      return DType::boolean;
    default:
      return std::nullopt;
  }
}

constexpr const char* kNames[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};

const char* name_of_op(const c10d::ReduceOp& op) { return op.op_ < c10d::ReduceOp::UNUSED ? kNames[op.op_] : "?"; }

}  // namespace

ReduceOp reduce_op(const c10d::ReduceOp& op, const char* what) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::PREMUL_SUM:
      return ReduceOp::sum;
    case c10d::ReduceOp::AVG:
      return ReduceOp::avg;
    case c10d::ReduceOp::PRODUCT:
      return ReduceOp::product;
    case c10d::ReduceOp::MIN:
      return ReduceOp::min;
    case c10d::ReduceOp::MAX:
      return ReduceOp::max;
    case c10d::ReduceOp::BAND:
      return ReduceOp::band;
    case c10d::ReduceOp::BOR:
      return ReduceOp::bor;
    case c10d::ReduceOp::BXOR:
      return ReduceOp::bxor;
    default:
      TORCH_CHECK(false, what, ": unknown reduction ", static_cast<int>(op.op_), ". Nothing was sent");
  }
}

Elements elements_to_reduce(at::ScalarType type, const c10d::ReduceOp& op, const char* what) {
  const ReduceOp ours = reduce_op(op, what);
  if (c10::isComplexType(type)) {
    TORCH_CHECK(ours == ReduceOp::sum || ours == ReduceOp::avg, what, ": ", name_of_op(op),
                " is not defined for complex numbers (", type, "); SUM, AVG and PREMUL_SUM are. Nothing was sent");
    return {*named(c10::toRealValueType(type)), 2};
  }
  const auto dtype = named(type);
  TORCH_CHECK(dtype.has_value(), what, ": elements of type ", type,
              " can be moved but not reduced; convert them first, to bfloat16 for example. Nothing was sent");
  const bool premultiplied = op.op_ == c10d::ReduceOp::PREMUL_SUM;
  TORCH_CHECK(supports(ours, *dtype) && (!premultiplied || is_floating(*dtype)), what, ": ", name_of_op(op),
              " is not defined for ", type,
              premultiplied           ? "; use SUM and multiply, or floating-point elements"
              : ours == ReduceOp::avg ? "; convert it to numbers"
                                      : "; it is for integers and bool",
              ". Nothing was sent");
  return {*dtype, 1};
}

Elements elements_to_move(at::ScalarType type) {
  if (const auto dtype = named(type)) return {*dtype, 1};
  if (c10::isComplexType(type)) return {*named(c10::toRealValueType(type)), 2};
  return {DType::u8, static_cast<std::int64_t>(c10::elementSize(type))};
}

void check_dense(const at::Tensor& t, const char* what) {
  TORCH_CHECK(t.defined(), what, ": a tensor is undefined. Nothing was sent");
  TORCH_CHECK(t.device().is_cpu(), what, ": the tensor is on ", t.device(),
              ", and this back end moves CPU memory. Give each device its back end: "
              "init_process_group(\"cpu:unisono,cuda:nccl\"), or copy the tensor to the CPU. Nothing was sent");
  TORCH_CHECK(t.layout() == at::kStrided, what, ": the tensor's layout is ", t.layout(),
              "; this operation takes dense tensors. Nothing was sent");
}

void check_same_type(at::TensorList tensors, const at::Tensor& like, const char* what) {
  for (const at::Tensor& t : tensors) {
    check_dense(t, what);
    TORCH_CHECK(t.scalar_type() == like.scalar_type(), what, ": tensors of type ", t.scalar_type(), " and ",
                like.scalar_type(), " in one call; they must have one type. Nothing was sent");
  }
}

void check_writable(const at::Tensor& t, const char* what) {
  TORCH_CHECK(at::has_internal_overlap(t) != at::MemOverlap::Yes, what,
              ": the result goes into a tensor whose elements share memory (from expand()?); use its clone(). "
              "Nothing was sent");
}

bool is_packed(const at::Tensor& t) { return t.is_contiguous() && !t.is_conj() && !t.is_neg(); }

at::Tensor packed(const at::Tensor& t) {
  if (is_packed(t)) return t;
  const at::NoGradGuard no_grad;
  return t.resolve_conj().resolve_neg().contiguous();
}

at::Tensor landing_for(const at::Tensor& t) {
  if (is_packed(t)) return t;
  return at::empty(t.sizes(), t.options().memory_format(at::MemoryFormat::Contiguous).requires_grad(false));
}

void settle_into(const at::Tensor& t, const at::Tensor& landing) {
  if (landing.is_same(t)) return;
  const at::NoGradGuard no_grad;
  t.copy_(landing);
}

at::Tensor adjoining(at::TensorList list) {
  std::int64_t total = 0;
  const char* next = nullptr;
  const at::Tensor* first = nullptr;
  for (const at::Tensor& t : list) {
    if (!is_packed(t)) return {};
    total += t.numel();
    if (t.numel() == 0) continue;
    const char* data = static_cast<const char*>(t.const_data_ptr());
    if (first == nullptr)
      first = &t;
    else if (data != next || !t.storage().is_alias_of(first->storage()))
      return {};
    next = data + t.nbytes();
  }
  if (first == nullptr) return {};
  const at::NoGradGuard no_grad;
  return first->detach().as_strided({total}, {1}, first->storage_offset());
}

at::Tensor joined(at::TensorList list) {
  if (at::Tensor whole = adjoining(list); whole.defined()) return whole;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> flat;
  flat.reserve(list.size());
  for (const at::Tensor& t : list) flat.push_back(packed(t.detach()).view({-1}));
  return at::cat(flat);
}

at::Tensor stacked(at::TensorList list) {
  const at::NoGradGuard no_grad;
  const at::Tensor flat = joined(list);
  std::vector<std::int64_t> shape = list.front().sizes().vec();
  shape.insert(shape.begin(), static_cast<std::int64_t>(list.size()));
  return flat.view(shape);
}

at::Tensor joined_landing(at::TensorList list) {
  if (at::Tensor whole = adjoining(list); whole.defined()) return whole;
  std::int64_t total = 0;
  for (const at::Tensor& t : list) total += t.numel();
  return at::empty({total}, list.front().options().memory_format(std::nullopt).requires_grad(false));
}

void settle_into(at::TensorList list, const at::Tensor& landing) {
  if (const at::Tensor whole = adjoining(list); whole.defined() && whole.data_ptr() == landing.data_ptr()) return;
  const at::NoGradGuard no_grad;
  std::int64_t offset = 0;
  for (const at::Tensor& t : list) {
    t.copy_(landing.narrow(0, offset, t.numel()).view(t.sizes()));
    offset += t.numel();
  }
}

std::vector<std::int64_t> sizes_of(at::TensorList list) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(list.size());
  for (const at::Tensor& t : list) sizes.push_back(t.numel());
  return sizes;
}

bool all_equal(const std::vector<std::int64_t>& sizes) {
  for (const std::int64_t s : sizes)
    if (s != sizes.front()) return false;
  return true;
}

}  // namespace unisono::torch_backend
