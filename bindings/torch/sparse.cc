/// all_reduce of sparse COO tensors: the sum of what all ranks hold. Ranks may have different numbers of entries.

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>

#include "backend.h"
#include "tensors.h"

namespace unisono::torch_backend {
namespace {

using c10d::OpType;

/// What ranks must agree on, and how many entries each has.
std::vector<std::int64_t> describe_entries(const at::Tensor& t) {
  std::vector<std::int64_t> words{t._nnz(), t.sparse_dim(), t.dense_dim(), static_cast<std::int64_t>(t.scalar_type())};
  words.insert(words.end(), t.sizes().begin(), t.sizes().end());
  return words;
}

}  // namespace

/// Two steps: who has how many entries (waits for the other ranks, also in an asynchronous call, for what follows depends on it),
/// then everybody's indices and values in one all_gather of bytes; each rank sums in rank order, so all have the same bits.
Backend::WorkPtr Backend::allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  Operation o(OpType::_ALLREDUCE_SPARSE, "unisono:all_reduce");
  TORCH_CHECK(tensors.size() == 1, o.title, ": ", tensors.size(), " tensors were given, one is needed");
  TORCH_CHECK(tensors.front().device().is_cpu(), o.title, ": the sparse tensor is on ", tensors.front().device(),
              "; this back end moves CPU memory. Nothing was sent");
  TORCH_CHECK(opts.reduceOp.op_ == c10d::ReduceOp::SUM, o.title,
              ": sparse tensors can be summed, nothing else. Nothing was sent");
  const at::NoGradGuard no_grad;
  const at::Tensor t = tensors.front().is_coalesced() ? tensors.front() : tensors.front().coalesce();
  o.inputs = {t._values()};

  const std::vector<std::int64_t> mine = describe_entries(t);
  std::vector<std::int64_t> all(mine.size() * static_cast<std::size_t>(size_));
  Operation header(OpType::_ALLREDUCE_SPARSE, "unisono:all_reduce (sparse: sizes)");
  header.call.collective = Collective::all_gather;
  header.call.dtype = DType::i64;
  header.call.count = static_cast<std::int64_t>(mine.size());
  header.call.input = mine.data();
  header.call.output = all.data();
  launch(std::move(header), false, opts.timeout);

  const at::Tensor indices = packed(t._indices()), values = packed(t._values());
  const auto width = static_cast<std::size_t>(mine.size());
  std::vector<std::int64_t> entries;
  for (int r = 0; r < size_; r++) {
    const auto theirs = all.begin() + static_cast<std::ptrdiff_t>(width * static_cast<std::size_t>(r));
    TORCH_CHECK(std::equal(mine.begin() + 1, mine.end(), theirs + 1), o.title, ": the sparse tensor of rank ", r,
                " has another shape or type than that of rank ", rank_);
    entries.push_back(*theirs);
  }
  const std::int64_t index_bytes = 8 * t.sparse_dim();
  std::int64_t value_bytes = values.element_size();
  for (std::int64_t d = 1; d < values.dim(); d++) value_bytes *= values.size(d);
  for (const std::int64_t n : entries) o.counts.push_back(n * (index_bytes + value_bytes));

  const auto bytes = [](const at::Tensor& x) {
    return x.numel() == 0 ? x.new_empty({0}, at::kByte) : x.view({-1}).view(at::kByte);
  };
  o.source = at::cat({bytes(indices), bytes(values)});
  o.landing = at::empty({std::accumulate(o.counts.begin(), o.counts.end(), std::int64_t{0})}, at::kByte);
  o.call.collective = Collective::all_gather;
  o.call.dtype = DType::u8;
  o.call.count = o.source.numel();
  o.use_counts();
  o.call.input = o.source.const_data_ptr();
  o.call.output = o.landing.data_ptr();
  o.outcome.tensors.push_back(tensors);
  o.finish = [target = tensors.front(), landing = o.landing, entries, index_bytes, value_bytes, t] {
    const at::NoGradGuard guard;
    at::Tensor sum;
    std::int64_t offset = 0;
    for (const std::int64_t n : entries) {
      const at::Tensor i = landing.narrow(0, offset, n * index_bytes).clone().view(at::kLong).view({t.sparse_dim(), n});
      offset += n * index_bytes;
      std::vector<std::int64_t> shape = t._values().sizes().vec();
      shape[0] = n;
      const at::Tensor v = landing.narrow(0, offset, n * value_bytes).clone().view(t.scalar_type()).view(shape);
      offset += n * value_bytes;
      const at::Tensor part = at::_sparse_coo_tensor_unsafe(i, v, t.sizes(), v.options().layout(at::kSparse));
      sum = sum.defined() ? sum.add(part) : part;
    }
    target.copy_(sum.coalesce());
  };
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

}  // namespace unisono::torch_backend
