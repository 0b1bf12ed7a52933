/// all_to_all, barrier.

#include "backend.h"
#include "tensors.h"

namespace unisono::torch_backend {
namespace {

using c10d::OpType;

/// Rows of dimension 0 for each rank, as elements; checks that they add up.
std::vector<std::int64_t> counts_of(const std::vector<std::int64_t>& splits, const at::Tensor& t, int size,
                                    const char* side, const char* what) {
  const std::int64_t rows = t.dim() == 0 ? t.numel() : t.size(0);
  const std::int64_t row = rows == 0 ? 0 : t.numel() / rows;
  if (splits.empty()) {
    TORCH_CHECK(rows % size == 0, what, ": dimension 0 of the ", side, " has ", rows, " rows, which ", size,
                " ranks cannot share equally; give split sizes. Nothing was sent");
    return std::vector<std::int64_t>(static_cast<std::size_t>(size), rows / size * row);
  }
  TORCH_CHECK(splits.size() == static_cast<std::size_t>(size), what, ": ", splits.size(), " ", side, " split sizes; ",
              size, " are needed, one for each rank. Nothing was sent");
  std::vector<std::int64_t> counts;
  std::int64_t sum = 0;
  for (const std::int64_t s : splits) {
    TORCH_CHECK(s >= 0, what, ": an ", side, " split size is ", s, ". Nothing was sent");
    sum += s;
    counts.push_back(s * row);
  }
  TORCH_CHECK(sum == rows, what, ": the ", side, " split sizes add up to ", sum, ", but dimension 0 of the ", side,
              " has ", rows, " rows. Nothing was sent");
  return counts;
}

void fill(Operation& o, const at::Tensor& like, std::vector<std::int64_t> in, std::vector<std::int64_t> out, int rank) {
  const auto me = static_cast<std::size_t>(rank);
  TORCH_CHECK(in[me] == out[me], o.title, ": rank ", rank, " sends ", in[me], " elements to itself but expects ",
              out[me], ". Nothing was sent");
  const Elements e = elements_to_move(like.scalar_type());
  o.call.collective = Collective::all_to_all;
  o.call.dtype = e.dtype;
  for (std::int64_t& c : in) c *= e.per_element;
  for (std::int64_t& c : out) c *= e.per_element;
  o.counts = std::move(in);
  o.output_counts = std::move(out);
}

}  // namespace

Backend::WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                                        std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& opts) {
  Operation o(OpType::ALLTOALL_BASE, "unisono:all_to_all");
  check_dense(input, o.title);
  check_same_type(output, input, o.title);
  check_writable(output, o.title);
  fill(o, input, counts_of(input_splits, input, size_, "input", o.title),
       counts_of(output_splits, output, size_, "output", o.title), rank_);
  // Whether there are splits decides how all ranks do it; it must not depend on the values, which differ by rank.
  if (input_splits.empty() && output_splits.empty()) {
    TORCH_CHECK(input.numel() == output.numel(), o.title, ": without split sizes input (", input.numel(),
                " elements) and output (", output.numel(), ") must have equal sizes. Nothing was sent");
    o.call.count = o.counts.front();
  } else {
    o.use_counts();
  }
  o.inputs = {input};
  o.read(packed(input));
  o.write(output);
  o.outcome.tensors.push_back({output});
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

Backend::WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  Operation o(OpType::ALLTOALL, "unisono:all_to_all");
  for (const Tensors* list : {&inputs, &outputs})
    TORCH_CHECK(list->size() == static_cast<std::size_t>(size_), o.title, ": a list has ", list->size(), " tensors; ",
                size_, " are needed, one for each rank. Nothing was sent");
  check_same_type(inputs, inputs.front(), o.title);
  check_same_type(outputs, inputs.front(), o.title);
  for (const at::Tensor& t : outputs) check_writable(t, o.title);
  fill(o, inputs.front(), sizes_of(inputs), sizes_of(outputs), rank_);
  o.use_counts();
  o.inputs = inputs;
  o.read(joined(inputs));
  o.write(outputs);
  o.outcome.tensors.push_back(outputs);
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

Backend::WorkPtr Backend::barrier(const c10d::BarrierOptions& opts) {
  // Behind all that was enqueued before it: collectives of a group run one after the other.
  Operation o(OpType::BARRIER, "unisono:barrier");
  o.call.collective = Collective::barrier;
  o.earlier = landings_.pending();
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

}  // namespace unisono::torch_backend
