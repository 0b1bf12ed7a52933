#include "memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_real.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/Storage.h>
#include <unistd.h>

#include <algorithm>

#include "adoption.h"

namespace unisono::torch_backend {
namespace {

/// What a shared tensor's memory is freed by; also how one is known.
void give_back(void* context) {
  auto* buffer = static_cast<Buffer*>(context);
  c10::profiledCPUMemoryReporter().Delete(buffer->data());
  delete buffer;
}

/// Torch's CPU allocator from the first scope on. Torch never lets go of an allocator, so there is one, and it stays.
class ScopedAllocator final : public c10::Allocator {
 public:
  explicit ScopedAllocator(c10::Allocator* usual) : usual_(usual) {}
  c10::DataPtr allocate(std::size_t bytes) override {
    if (c10::DataPtr shared = AllocationScope::allocate(bytes)) return shared;
    return usual_->allocate(bytes);
  }
  // raw_deleter() stays null, "no raw interface": not everything here is freed in one way.
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

 private:
  c10::Allocator* usual_;
};

void install() {
  static c10::Allocator* const installed = [] {
    c10::Allocator* made = new ScopedAllocator(c10::GetCPUAllocator());
    c10::SetCPUAllocator(made);
    return made;
  }();
  TORCH_CHECK(c10::GetCPUAllocator() == installed,
              "unisono: shared_allocator: another library has replaced torch's CPU allocator, so allocations cannot be "
              "directed. Allocate single tensors with the process group's backend.allocate_tensor() instead");
}

thread_local AllocationScope* innermost = nullptr;

}  // namespace

SharedAllocator::SharedAllocator(const std::shared_ptr<World>& world)
    : world_(world), owner_(::getpid()), shares_(world->context.allocate(1).shared()) {}

bool SharedAllocator::usable() const noexcept { return !world_.expired() && ::getpid() == owner_; }

c10::DataPtr SharedAllocator::allocate(std::size_t bytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (bytes == 0) return {nullptr, cpu};
  const auto world = world_.lock();
  TORCH_CHECK(world != nullptr, "unisono: shared memory for a tensor: its process group is destroyed; make a new one");
  TORCH_CHECK(::getpid() == owner_, "unisono: shared memory for a tensor: process ", ::getpid(),
              " was forked from rank's process ", owner_, ", and only that one may allocate it");
  try {
    auto buffer = std::make_unique<Buffer>(world->context.allocate(bytes));
    c10::profiledCPUMemoryReporter().New(buffer->data(), bytes);
    void* data = buffer->data();
    return {data, buffer.release(), &give_back, cpu};
  } catch (const Error& e) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "unisono: shared memory for a tensor of ", bytes, " bytes: ", e.what(),
                     ". Ordinary memory serves as well: leave shared_allocator(), and DDP_DISABLE_COMM_MEM=1");
  }
}

at::Tensor SharedAllocator::tensor(std::int64_t elements, const at::TensorOptions& options) {
  TORCH_CHECK(options.device().is_cpu(), "unisono: allocate_tensor: a tensor on ", options.device(),
              " was asked for; this back end has CPU memory");
  TORCH_CHECK(elements >= 0, "unisono: allocate_tensor: ", elements, " elements");
  const auto bytes = static_cast<std::size_t>(elements) * options.dtype().itemsize();
  // Its own allocator must not be named in the storage, which may outlive it.
  const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, allocate(bytes), c10::GetCPUAllocator(), true);
  at::Tensor t = at::empty({0}, options.requires_grad(false));
  t.set_(storage, 0, {elements}, {1});
  // Torch 2.13's DDP looks at a bucket of complex gradients as twice as many real numbers, but forgets to turn one that its back
  // end has allocated into that (Reducer::initialize_buckets). Nobody else asks for complex memory here.
  return options.dtype().toScalarType() == at::kComplexFloat || options.dtype().toScalarType() == at::kComplexDouble
             ? at::view_as_real(t).reshape({-1})
             : t;
}

AllocationScope::AllocationScope(std::shared_ptr<SharedAllocator> allocator, std::size_t least)
    : allocator_(std::move(allocator)), least_(std::max<std::size_t>(least, 1)) {}

AllocationScope::~AllocationScope() {
  if (open_ && innermost == this) innermost = outer_;
}

void AllocationScope::open() {
  TORCH_CHECK(!open_, "unisono: this shared_allocator() is entered already; make another one");
  install();
  outer_ = std::exchange(innermost, this);
  open_ = true;
}

void AllocationScope::close() {
  TORCH_CHECK(open_ && innermost == this,
              "unisono: shared_allocator() is left in another order or thread than it was entered; use it with `with`");
  innermost = std::exchange(outer_, nullptr);
  open_ = false;
}

c10::DataPtr AllocationScope::allocate(std::size_t bytes) {
  const AllocationScope* scope = innermost;
  // The group may be destroyed, or this a forked worker of a data loader: then torch's own memory is right.
  if (scope == nullptr || bytes < scope->least_ || !scope->allocator_->usable()) return {};
  return scope->allocator_->allocate(bytes);
}

bool is_shared(const at::Tensor& t) {
  if (!t.defined() || !t.has_storage()) return false;
  const c10::DataPtr& memory = t.storage().data_ptr();
  if (const auto adopted = Adopted::of(t)) return adopted->shared();
  return memory.get_deleter() == &give_back && static_cast<const Buffer*>(memory.get_context())->shared();
}

}  // namespace unisono::torch_backend
