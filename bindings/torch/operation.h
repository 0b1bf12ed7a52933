#pragma once
/// One call of a c10d operation, ready to run: what unisono is asked for, which tensors that touches, what is left to do after.

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <unisono/group.hpp>
#include <utility>
#include <vector>

namespace unisono::torch_backend {

class Flight;
/// Operations in flight. What is gone by now has its results in the user's tensors.
using Flights = std::vector<std::weak_ptr<Flight>>;

/// The results, and the form in which a future holds them. The forms are those of ProcessGroupNCCL's futures.
struct Outcome {
  enum class Form : std::uint8_t {
    list,     ///< the tensors
    stacked,  ///< one tensor of all of them, which have one shape: all_gather
    nested,   ///< a list of lists: all_gather_coalesced, which NCCL does not have
  };
  std::vector<std::vector<at::Tensor>> tensors;
  Form form = Form::list;
};

/// Movable. The tensors in `inputs` and `landing` own the memory that `call` points to.
struct Operation {
  Operation(c10d::OpType type_, const char* title_) : type(type_), title(title_) {}

  c10d::OpType type;
  const char* title;  ///< for the profiler and for errors: "unisono:all_reduce"
  Call call;
  std::vector<std::int64_t> counts, output_counts;  ///< what call.counts and call.output_counts refer to
  std::vector<at::Tensor> inputs;                   ///< what is read, as the user gave it (profiler) or packed
  at::Tensor source, landing;                       ///< the memory that is read and written
  Outcome outcome;                                  ///< what the future holds
  std::array<std::shared_ptr<void>, 2> begun;       ///< that an operation on this memory is under way (adoption.h)
  std::function<void()> finish;  ///< after success: from the landing to the user's tensors. May be empty
  Flights earlier;               ///< of a barrier: what is done before it is, and complete when it is

  /// What is sent: packed memory.
  void read(at::Tensor packed) {
    source = std::move(packed);
    call.input = source.const_data_ptr();
  }
  /// What comes goes into `t`: straight, or by way of a landing where its elements do not lie in order.
  void write(const at::Tensor& t);
  /// The same with `staged`, packed memory of t's shape, for a landing.
  void write(const at::Tensor& t, const at::Tensor& staged);
  /// One behind the other into all of them: straight where they adjoin.
  void write(const std::vector<at::Tensor>& list);
  /// Whether others of so many ranks of this host read `source` and write `landing` of rank `rank` when that memory is shared.
  std::pair<bool, bool> reached(int rank, int ranks) const;
  void use_counts() {
    call.counts = counts;
    call.output_counts = output_counts;
  }
};

/// An event in the profiler's trace, from begin() until the last reference or end(). Nothing when no profiler runs.
class Recording {
 public:
  static Recording begin(const char* title, at::TensorList inputs) {
    auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
    if (!callbacks) return {};
    Recording r;
    r.event_ = std::make_unique<at::RecordFunction>(std::move(*callbacks));
    r.event_->_setAsync();  // it may end in another thread
    std::vector<c10::IValue> values(inputs.begin(), inputs.end());
    r.event_->before(title, &values);
    return r;
  }
  void end() noexcept {
    if (event_) event_->end();
    event_.reset();
  }

 private:
  std::unique_ptr<at::RecordFunction> event_;
};

}  // namespace unisono::torch_backend
