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

}  // namespace unisono::torch_backend
