#pragma once
/// A Work as Python holds it, with the memory that its operation uses.

#include <memory>

#include "group.h"
#include "operation.h"

namespace unisono::python {

/// Keeps the buffers alive until the operation is done, also when Python drops it before. GIL held for everything.
class PyWork {
 public:
  PyWork(Work work, std::unique_ptr<Operation> operation, std::shared_ptr<GroupState> state)
      : work_(std::move(work)), operation_(std::move(operation)), state_(std::move(state)) {}
  PyWork(PyWork&&) = default;
  PyWork& operator=(PyWork&&) = delete;
  ~PyWork();

  void wait(nb::handle timeout);
  bool done() noexcept;
  bool cancel();
  nb::object error();
  nb::object received();
  const Work& handle() const noexcept { return work_; }

 private:
  void settle() noexcept;

  Work work_;
  std::unique_ptr<Operation> operation_;  // null once it is done
  std::shared_ptr<GroupState> state_;
};

}  // namespace unisono::python
