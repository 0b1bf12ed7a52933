/// all_reduce, reduce, reduce_scatter.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/mul.h>

#include "backend.h"
#include "tensors.h"
#include "versions.h"

namespace unisono::torch_backend {
namespace {

using c10d::OpType;

/// For PREMUL_SUM: t times the factor, in new memory; otherwise t, packed.
at::Tensor prepared(const at::Tensor& t, const c10d::ReduceOp& op, const char* what) {
  if (op.op_ != c10d::ReduceOp::PREMUL_SUM) return packed(t);
  const auto* supplement = dynamic_cast<const PreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(supplement != nullptr, what,
              ": PREMUL_SUM without a factor; make it with torch.distributed._make_nccl_premul_sum(factor)");
  const at::NoGradGuard no_grad;
  if (!supplement->tensor_factor.defined()) return packed(t.detach().mul(supplement->double_factor));
  check_dense(supplement->tensor_factor, what);
  return packed(t.detach().mul(supplement->tensor_factor.to(t.scalar_type()).view(at::IntArrayRef{})));
}

void fill(Operation& o, const at::Tensor& like, const c10d::ReduceOp& op) {
  o.call.dtype = elements_to_reduce(like.scalar_type(), op, o.title).dtype;
  o.call.op = reduce_op(op, o.title);
}

/// How many of unisono's elements n of the tensor's are.
std::int64_t scaled(const at::Tensor& like, std::int64_t n) { return like.is_complex() ? 2 * n : n; }

void check_one(const std::vector<at::Tensor>& tensors, const char* what) {
  TORCH_CHECK(tensors.size() == 1, what, ": ", tensors.size(), " tensors were given, one is needed. Nothing was sent");
}

}  // namespace

Backend::WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  Operation o(OpType::ALLREDUCE, "unisono:all_reduce");
  check_one(tensors, o.title);
  const at::Tensor& t = tensors.front();
  if (t.layout() == at::kSparse) return allreduce_sparse(tensors, opts);
  check_dense(t, o.title);
  check_writable(t, o.title);
  fill(o, t, opts.reduceOp);
  o.call.collective = Collective::all_reduce;
  o.call.count = scaled(t, t.numel());
  o.inputs = tensors;
  o.read(prepared(t, opts.reduceOp, o.title));
  o.write(t, o.source);  // what was staged for reading can be written, too
  o.outcome.tensors.push_back(tensors);
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

Backend::WorkPtr Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) {
  Operation o(OpType::ALLREDUCE_COALESCED, "unisono:all_reduce");
  TORCH_CHECK(!tensors.empty(), o.title, ": the list of tensors is empty. Nothing was sent");
  check_same_type(tensors, tensors.front(), o.title);
  for (const at::Tensor& t : tensors) check_writable(t, o.title);
  fill(o, tensors.front(), opts.reduceOp);
  o.call.collective = Collective::all_reduce;
  o.inputs = tensors;
  o.landing = joined(tensors);
  o.read(prepared(o.landing, opts.reduceOp, o.title));
  o.call.count = scaled(o.landing, o.landing.numel());
  o.call.output = o.landing.data_ptr();
  o.outcome.tensors.push_back(tensors);
  o.finish = [tensors, landing = o.landing] { settle_into(tensors, landing); };
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

Backend::WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  Operation o(OpType::REDUCE, "unisono:reduce");
  check_one(tensors, o.title);
  check_root(opts.rootRank, o.title);
  const at::Tensor& t = tensors.front();
  check_dense(t, o.title);
  const bool root = opts.rootRank == rank_;
  if (root) check_writable(t, o.title);
  fill(o, t, opts.reduceOp);
  o.call.collective = Collective::reduce;
  o.call.count = scaled(t, t.numel());
  o.call.root = static_cast<int>(opts.rootRank);
  o.inputs = tensors;
  o.read(prepared(t, opts.reduceOp, o.title));
  o.outcome.tensors.push_back(tensors);
  if (root) o.write(t, o.source);
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

Backend::WorkPtr Backend::reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& opts) {
  Operation o(OpType::REDUCE_SCATTER, "unisono:reduce_scatter");
  check_one(outputs, o.title);
  TORCH_CHECK(inputs.size() == 1 && inputs.front().size() == static_cast<std::size_t>(size_), o.title, ": a list of ",
              size_, " input tensors is needed, one for each rank. Nothing was sent");
  const Tensors& parts = inputs.front();
  const at::Tensor& out = outputs.front();
  check_dense(out, o.title);
  check_writable(out, o.title);
  check_same_type(parts, out, o.title);
  fill(o, out, opts.reduceOp);
  o.counts = sizes_of(parts);
  TORCH_CHECK(out.numel() == o.counts[static_cast<std::size_t>(rank_)], o.title, ": the output has ", out.numel(),
              " elements, but input ", rank_, ", which is reduced into it, has ",
              o.counts[static_cast<std::size_t>(rank_)], ". Nothing was sent");
  o.call.collective = Collective::reduce_scatter;
  o.call.count = scaled(out, out.numel());
  if (!all_equal(o.counts)) {
    for (std::int64_t& c : o.counts) c = scaled(out, c);
    o.use_counts();
  }
  o.inputs = parts;
  o.read(prepared(joined(parts), opts.reduceOp, o.title));
  o.write(out);
  o.outcome.tensors.push_back(outputs);
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

Backend::WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& opts) {
  Operation o(OpType::_REDUCE_SCATTER_BASE, "unisono:reduce_scatter_tensor");
  check_dense(output, o.title);
  check_same_type(input, output, o.title);
  check_writable(output, o.title);
  TORCH_CHECK(input.numel() == output.numel() * size_, o.title, ": the input has ", input.numel(),
              " elements and the output ", output.numel(), "; the input must have ", size_,
              " times as many, a part for each rank. Nothing was sent");
  fill(o, output, opts.reduceOp);
  o.call.collective = Collective::reduce_scatter;
  o.call.count = scaled(output, output.numel());
  o.inputs = {input};
  o.read(prepared(input, opts.reduceOp, o.title));
  o.write(output);
  o.outcome.tensors.push_back({output});
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

/// One reduce_scatter of what all inputs hold for each rank: the parts are laid out rank by rank.
Backend::WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::ReduceScatterOptions& opts) {
  Operation o(kReduceScatterTensorCoalesced, "unisono:reduce_scatter_tensor");
  TORCH_CHECK(!outputs.empty() && outputs.size() == inputs.size(), o.title, ": ", inputs.size(), " inputs and ",
              outputs.size(), " outputs; as many of each are needed. Nothing was sent");
  check_same_type(outputs, outputs.front(), o.title);
  check_same_type(inputs, outputs.front(), o.title);
  for (std::size_t i = 0; i < outputs.size(); i++) {
    check_writable(outputs[i], o.title);
    TORCH_CHECK(inputs[i].numel() == outputs[i].numel() * size_, o.title, ": input ", i, " has ", inputs[i].numel(),
                " elements, not ", size_, " times those of output ", i, " (", outputs[i].numel(),
                "). Nothing was sent");
  }
  fill(o, outputs.front(), opts.reduceOp);
  Tensors pieces;
  pieces.reserve(inputs.size() * static_cast<std::size_t>(size_));
  Tensors flat;
  for (const at::Tensor& t : inputs) flat.push_back(packed(t.detach()).view({size_, t.numel() / size_}));
  for (int r = 0; r < size_; r++)
    for (const at::Tensor& t : flat) pieces.push_back(t.select(0, r));
  o.inputs = inputs;
  o.read(prepared(joined(pieces), opts.reduceOp, o.title));
  o.landing = joined_landing(outputs);
  o.call.collective = Collective::reduce_scatter;
  o.call.count = scaled(o.landing, o.landing.numel());
  o.call.output = o.landing.data_ptr();
  o.outcome.tensors.push_back(outputs);
  o.finish = [outputs, landing = o.landing] { settle_into(outputs, landing); };
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

}  // namespace unisono::torch_backend
