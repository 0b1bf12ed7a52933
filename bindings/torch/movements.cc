/// broadcast, all_gather, gather, scatter: elements of any type, none changed.

#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "backend.h"
#include "tensors.h"

namespace unisono::torch_backend {
namespace {

using c10d::OpType;

void fill(Operation& o, Collective collective, const at::Tensor& like, std::int64_t elements) {
  const Elements e = elements_to_move(like.scalar_type());
  o.call.collective = collective;
  o.call.dtype = e.dtype;
  o.call.count = e.per_element * elements;
}

/// The parts' sizes where they differ.
void fill_counts(Operation& o, at::TensorList parts) {
  o.counts = sizes_of(parts);
  if (all_equal(o.counts)) return;
  const Elements e = elements_to_move(parts.front().scalar_type());
  for (std::int64_t& c : o.counts) c *= e.per_element;
  o.use_counts();
}

void check_one(std::size_t n, const char* what, const char* role) {
  TORCH_CHECK(n == 1, what, ": ", n, " ", role, " were given, one is needed. Nothing was sent");
}

void check_parts(const std::vector<at::Tensor>& parts, const at::Tensor& own, int size, const char* what) {
  TORCH_CHECK(parts.size() == static_cast<std::size_t>(size), what, ": the list has ", parts.size(), " tensors; ", size,
              " are needed, one for each rank. Nothing was sent");
  check_same_type(parts, own, what);
}

void check_equal_parts(const std::vector<at::Tensor>& parts, const at::Tensor& own, const char* what) {
  for (std::size_t i = 0; i < parts.size(); i++)
    TORCH_CHECK(parts[i].numel() == own.numel(), what, ": tensor ", i, " of the list has ", parts[i].numel(),
                " elements, the rank's own tensor ", own.numel(),
                "; only all_gather and reduce_scatter take parts of different sizes. Nothing was sent");
}

bool same_shape(at::TensorList list) {
  return std::ranges::all_of(list, [&](const at::Tensor& t) { return t.sizes() == list.front().sizes(); });
}

}  // namespace

Backend::WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  Operation o(OpType::BROADCAST, "unisono:broadcast");
  check_one(tensors.size(), o.title, "tensors");
  check_root(opts.rootRank, o.title);
  const at::Tensor& t = tensors.front();
  check_dense(t, o.title);
  fill(o, Collective::broadcast, t, t.numel());
  o.call.root = static_cast<int>(opts.rootRank);
  o.inputs = tensors;
  o.outcome.tensors.push_back(tensors);
  if (opts.rootRank == rank_) {
    o.read(packed(t));
    // In place: unisono does not write to what the root sends.
    o.call.output = const_cast<void*>(o.call.input);
  } else {
    check_writable(t, o.title);
    o.write(t);
  }
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

Backend::WorkPtr Backend::allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  Operation o(OpType::ALLGATHER, "unisono:all_gather");
  check_one(inputs.size(), o.title, "inputs");
  check_one(outputs.size(), o.title, "lists of outputs");
  const Tensors& parts = outputs.front();
  const at::Tensor& in = inputs.front();
  check_dense(in, o.title);
  check_parts(parts, in, size_, o.title);
  for (const at::Tensor& t : parts) check_writable(t, o.title);
  const std::int64_t own = parts[static_cast<std::size_t>(rank_)].numel();
  TORCH_CHECK(own == in.numel(), o.title, ": the input has ", in.numel(), " elements, but output ", rank_,
              ", into which it goes, has ", own, ". Nothing was sent");
  fill(o, Collective::all_gather, in, in.numel());
  fill_counts(o, parts);
  o.inputs = inputs;
  o.read(packed(in));
  o.write(parts);
  o.outcome = {outputs, same_shape(parts) ? Outcome::Form::stacked : Outcome::Form::list};
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

Backend::WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) {
  Operation o(OpType::_ALLGATHER_BASE, "unisono:_all_gather_base");
  check_dense(input, o.title);
  check_same_type(output, input, o.title);
  check_writable(output, o.title);
  TORCH_CHECK(output.numel() == input.numel() * size_, o.title, ": the output has ", output.numel(),
              " elements and the input ", input.numel(), "; the output must have ", size_,
              " times as many, a part from each rank. Nothing was sent");
  fill(o, Collective::all_gather, input, input.numel());
  o.inputs = {input};
  o.read(packed(input));
  o.write(output);
  o.outcome.tensors.push_back({output});
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

/// One all_gather of all inputs behind each other. outputs[r][i] is rank r's i-th input.
Backend::WorkPtr Backend::allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) {
  Operation o(OpType::ALLGATHER_COALESCED, "unisono:all_gather");
  TORCH_CHECK(!inputs.empty(), o.title, ": the list of inputs is empty. Nothing was sent");
  TORCH_CHECK(outputs.size() == static_cast<std::size_t>(size_), o.title, ": ", outputs.size(), " lists of outputs; ",
              size_, " are needed, one for each rank. Nothing was sent");
  check_same_type(inputs, inputs.front(), o.title);
  Tensors all;
  for (const Tensors& list : outputs) {
    TORCH_CHECK(list.size() == inputs.size(), o.title, ": a list of outputs has ", list.size(),
                " tensors and there are ", inputs.size(), " inputs. Nothing was sent");
    check_same_type(list, inputs.front(), o.title);
    for (std::size_t i = 0; i < list.size(); i++) {
      check_writable(list[i], o.title);
      TORCH_CHECK(list[i].numel() == inputs[i].numel(), o.title, ": output ", i, " has ", list[i].numel(),
                  " elements, input ", i, " ", inputs[i].numel(), ". Nothing was sent");
    }
    all.insert(all.end(), list.begin(), list.end());
  }
  o.inputs = inputs;
  o.read(joined(inputs));
  o.write(all);
  fill(o, Collective::all_gather, o.source, o.source.numel());
  o.outcome = {outputs, Outcome::Form::nested};
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

/// One all_gather of all inputs behind each other; part r of output i is rank r's i-th input.
Backend::WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& opts) {
  Operation o(OpType::ALLGATHER_COALESCED, "unisono:_all_gather_base");
  TORCH_CHECK(!inputs.empty() && outputs.size() == inputs.size(), o.title, ": ", inputs.size(), " inputs and ",
              outputs.size(), " outputs; as many of each are needed. Nothing was sent");
  check_same_type(inputs, inputs.front(), o.title);
  check_same_type(outputs, inputs.front(), o.title);
  for (std::size_t i = 0; i < outputs.size(); i++) {
    check_writable(outputs[i], o.title);
    TORCH_CHECK(outputs[i].numel() == inputs[i].numel() * size_, o.title, ": output ", i, " has ", outputs[i].numel(),
                " elements, not ", size_, " times those of input ", i, " (", inputs[i].numel(), "). Nothing was sent");
  }
  o.inputs = inputs;
  o.read(joined(inputs));
  fill(o, Collective::all_gather, o.source, o.source.numel());
  o.landing = joined_landing(outputs);
  if (outputs.size() > 1) o.landing = landing_for(at::empty_like(o.landing));
  o.call.output = o.landing.data_ptr();
  o.outcome.tensors.push_back(outputs);
  o.finish = [outputs, landing = o.landing, n = size_] {
    // The landing holds, for each rank, the parts of all outputs.
    const at::Tensor by_rank = landing.view({n, landing.numel() / n});
    std::int64_t offset = 0;
    for (const at::Tensor& out : outputs) {
      const std::int64_t part = out.numel() / n;
      settle_into(out, by_rank.narrow(1, offset, part).reshape(out.sizes()));
      offset += part;
    }
  };
  if (outputs.size() == 1) o.finish = [outputs, landing = o.landing] { settle_into(outputs, landing); };
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

Backend::WorkPtr Backend::gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) {
  Operation o(OpType::GATHER, "unisono:gather");
  check_one(inputs.size(), o.title, "inputs");
  check_root(opts.rootRank, o.title);
  const at::Tensor& in = inputs.front();
  check_dense(in, o.title);
  fill(o, Collective::gather, in, in.numel());
  o.call.root = static_cast<int>(opts.rootRank);
  o.inputs = inputs;
  o.read(packed(in));
  o.outcome.tensors = outputs;
  if (opts.rootRank == rank_) {
    at_root(o.title, [&] {
      check_one(outputs.size(), o.title, "lists of outputs (at the root)");
      check_parts(outputs.front(), in, size_, o.title);
      check_equal_parts(outputs.front(), in, o.title);
      for (const at::Tensor& t : outputs.front()) check_writable(t, o.title);
    });
    const Tensors& parts = outputs.front();
    o.write(parts);
  } else {
    TORCH_CHECK(outputs.empty() || outputs.front().empty(), o.title, ": rank ", rank_, " gave outputs, but rank ",
                opts.rootRank, " is the root. Nothing was sent");
  }
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

Backend::WorkPtr Backend::gather_single(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& opts) {
  Operation o(OpType::GATHER, "unisono:gather_single");
  check_root(opts.rootRank, o.title);
  check_dense(input, o.title);
  fill(o, Collective::gather, input, input.numel());
  o.call.root = static_cast<int>(opts.rootRank);
  o.inputs = {input};
  o.read(packed(input));
  o.outcome.tensors.push_back({output});
  if (opts.rootRank == rank_) {
    at_root(o.title, [&] {
      check_same_type(output, input, o.title);
      check_writable(output, o.title);
      TORCH_CHECK(output.numel() == input.numel() * size_, o.title, ": the output has ", output.numel(),
                  " elements and the input ", input.numel(), "; the output must have ", size_,
                  " times as many, a part from each rank. Nothing was sent");
    });
    o.write(output);
  }
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

Backend::WorkPtr Backend::scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& opts) {
  Operation o(OpType::SCATTER, "unisono:scatter");
  check_one(outputs.size(), o.title, "outputs");
  check_root(opts.rootRank, o.title);
  const at::Tensor& out = outputs.front();
  check_dense(out, o.title);
  check_writable(out, o.title);
  fill(o, Collective::scatter, out, out.numel());
  o.call.root = static_cast<int>(opts.rootRank);
  o.outcome.tensors.push_back(outputs);
  if (opts.rootRank == rank_) {
    at_root(o.title, [&] {
      check_one(inputs.size(), o.title, "lists of inputs (at the root)");
      check_parts(inputs.front(), out, size_, o.title);
      check_equal_parts(inputs.front(), out, o.title);
    });
    o.inputs = inputs.front();
    o.read(joined(o.inputs));
  } else {
    TORCH_CHECK(inputs.empty() || inputs.front().empty(), o.title, ": rank ", rank_, " gave inputs, but rank ",
                opts.rootRank, " is the root. Nothing was sent");
  }
  o.write(out);
  return launch(std::move(o), opts.asyncOp, opts.timeout);
}

}  // namespace unisono::torch_backend
