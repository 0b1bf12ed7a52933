#include "group/registration.h"

#include <fmt/format.h>

#include <cerrno>

#include "base/free_memory.h"
#include "unisono/registration.hpp"

namespace unisono::detail {

Result<std::shared_ptr<RegistrationImpl>> RegistrationImpl::create(const ContextImpl& context, void* data,
                                                                   std::size_t bytes, transport::Freed freed) {
  auto made = std::make_shared<RegistrationImpl>(static_cast<std::byte*>(data), bytes);
  if (context.segment == nullptr || bytes == 0) return made;
  if (context.segment->find(data, bytes).offset != 0 && context.buffers->find(data) != nullptr) {
    made->shared_ = true;  // from Group::allocate
    return made;
  }
  // A limit of memory that is passed ends a process; and who registers does so on all ranks, at the same time.
  const auto ranks = static_cast<std::uint64_t>(context.ranks_here());
  if (const std::uint64_t free = free_memory(); free / ranks < bytes)
    return Status::system(
        fmt::format("register_buffer: {} bytes on each of {} ranks of this host need as much again for a moment, but "
                    "{} bytes of memory are free",
                    bytes, ranks, free),
        ENOMEM);
  auto memory = context.segment->register_memory(made->data_, bytes, freed);
  if (!memory)
    return memory.status().with_context(fmt::format("register_buffer: {} bytes at {}", bytes, fmt::ptr(data)));
  made->memory_ = std::move(memory).value();
  return made;
}

RegistrationImpl::~RegistrationImpl() {
  if (memory_ != nullptr) memory_->release();
}

void RegistrationImpl::end(transport::RegisteredMemory::Contents contents) noexcept {
  if (memory_ != nullptr) memory_->release(contents);
  memory_ = nullptr;
  shared_ = false;
}

}  // namespace unisono::detail

namespace unisono {

Registration::Registration(std::shared_ptr<detail::RegistrationImpl> impl) : impl_(std::move(impl)) {}
Registration::~Registration() = default;
void Registration::release() noexcept { impl_ = nullptr; }
void Registration::discard() noexcept {
  if (impl_ != nullptr) impl_->discard();
  impl_ = nullptr;
}
std::byte* Registration::data() const noexcept { return impl_ == nullptr ? nullptr : impl_->data(); }
std::size_t Registration::size() const noexcept { return impl_ == nullptr ? 0 : impl_->bytes(); }
bool Registration::shared() const noexcept { return impl_ != nullptr && impl_->shared(); }

}  // namespace unisono
