#pragma once
/// Callers' own memory that is part of this process's shared segment.

#include <cstddef>
#include <memory>
#include <utility>

#include "group/context_impl.h"
#include "transport/transport.h"

namespace unisono::detail {

/// What a Registration refers to. Its end is the end of the registration. Thread-safety: a value.
class RegistrationImpl {
 public:
  /// Registers with the context's segment, if it has one. The errors of SharedSegment::register_memory.
  static Result<std::shared_ptr<RegistrationImpl>> create(const ContextImpl& context, void* data, std::size_t bytes,
                                                          transport::Freed freed = transport::Freed::after_release);
  RegistrationImpl(std::byte* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}
  /// A part of `whole`, which is registered as long as this is.
  RegistrationImpl(std::byte* data, std::size_t bytes, std::shared_ptr<RegistrationImpl> whole) noexcept
      : data_(data), bytes_(bytes), whole_(std::move(whole)) {}
  ~RegistrationImpl();
  void discard() noexcept { end(transport::RegisteredMemory::Contents::dropped); }
  /// Its end without private pages: they stay shared ones for good.
  void keep_shared() noexcept { end(transport::RegisteredMemory::Contents::left); }
  RegistrationImpl(const RegistrationImpl&) = delete;
  RegistrationImpl& operator=(const RegistrationImpl&) = delete;

  std::byte* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  bool shared() const noexcept {
    if (whole_ != nullptr) return whole_->shared();
    return memory_ != nullptr ? memory_->shared() : shared_;
  }
  /// null: there is nothing to undo.
  const transport::RegisteredMemory* memory() const noexcept { return memory_.get(); }

 private:
  void end(transport::RegisteredMemory::Contents contents) noexcept;
  std::byte* data_;
  std::size_t bytes_;
  bool shared_ = false;  ///< from Group::allocate
  std::shared_ptr<RegistrationImpl> whole_;
  std::shared_ptr<transport::RegisteredMemory> memory_;  ///< null: nothing to undo
};

}  // namespace unisono::detail
