#include "operation.h"

#include "tensors.h"

namespace unisono::torch_backend {

void Operation::write(const at::Tensor& t) { write(t, landing_for(t)); }

void Operation::write(const at::Tensor& t, const at::Tensor& staged) {
  landing = is_packed(t) ? t : staged;
  call.output = landing.data_ptr();
  if (!landing.is_same(t)) finish = [t, from = landing] { settle_into(t, from); };
}

void Operation::write(const std::vector<at::Tensor>& list) {
  landing = adjoining(list);
  if (!landing.defined()) {
    landing = joined_landing(list);
    finish = [list, from = landing] { settle_into(list, from); };
  }
  call.output = landing.data_ptr();
}

/// What the algorithms called `shared` touch (src/plan/algorithms).
std::pair<bool, bool> Operation::reached(int rank, int ranks) const {
  const bool root = call.root == rank;
  const bool helped = !root && ranks <= 4;  // by the root, who with more ranks does too small a part of each one's copy
  switch (call.collective) {
    case Collective::all_reduce:
      return {true, true};
    case Collective::reduce:
      return {true, root};
    case Collective::broadcast:
      return {root, !root};
    case Collective::scatter:
      return {root, helped};
    case Collective::gather:
      return {helped, root};
    case Collective::all_gather:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return {true, false};
    default:
      return {false, false};
  }
}

}  // namespace unisono::torch_backend
