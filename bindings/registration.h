#pragma once
/// A Registration as Python holds it, with the array whose memory it is.

#include "arrays.h"
#include "core.h"

namespace unisono::python {

/// The group holds it, too, and releases it when it is destroyed. GIL held for everything, also while pages are exchanged, so that
/// Python code cannot write to the array meanwhile.
class PyRegistration {
 public:
  /// Throws InvalidArgument when `object` has no contiguous memory of its own that can be written to, and what Group::register_buffer throws.
  PyRegistration(const Group& group, nb::handle object);
  void release() noexcept;
  bool shared() const noexcept { return registration_.shared(); }
  bool released() const noexcept { return !array_.held() || !registration_; }
  std::int64_t bytes() const noexcept { return bytes_; }

 private:
  Array array_;  ///< keeps the memory where it is
  std::int64_t bytes_ = 0;
  Registration registration_;
};

}  // namespace unisono::python
