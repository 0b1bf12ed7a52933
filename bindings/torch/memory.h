#pragma once
/// Tensors in memory that the other ranks on this host can reach: collectives on them copy nothing.

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>

#include "world.h"

namespace unisono::torch_backend {

/// From the world's shared segment. What it allocated lives on when the world is gone. Each allocation is freed for the next of
/// its size (unisono/buffer.hpp). Thread-safety: any thread.
class SharedAllocator final : public c10::Allocator {
 public:
  explicit SharedAllocator(const std::shared_ptr<World>& world);

  /// Throws c10::OutOfMemoryError when there is no more, and c10::Error when the world is gone or this is a forked child, which
  /// must not take from the segment: its parent does not learn of it.
  c10::DataPtr allocate(std::size_t bytes) override;
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }
  /// `elements` of options.dtype(), contents not defined. Made larger later, it moves to torch's usual memory. Complex ones come as
  /// twice as many real ones, which is what DDP needs.
  at::Tensor tensor(std::int64_t elements, const at::TensorOptions& options);

  /// Whether its memory is shared at all; not where ranks talk over tcp alone.
  bool shares() const noexcept { return shares_; }
  /// Whether allocate() can be called: the world lives, and this is its process.
  bool usable() const noexcept;

 private:
  std::weak_ptr<World> world_;
  pid_t owner_;
  bool shares_;
};

/// While it is open, torch's CPU allocations of at least `least` bytes in the thread that opened it come from `allocator`. Torch knows one CPU
/// allocator for the process: the first scope puts one in front of it for good that looks at the calling thread's scope, and
/// asks torch's own when there is none. Scopes of a thread nest. One thread at a time.
class AllocationScope {
 public:
  AllocationScope(std::shared_ptr<SharedAllocator> allocator, std::size_t least);
  ~AllocationScope();
  AllocationScope(const AllocationScope&) = delete;
  AllocationScope& operator=(const AllocationScope&) = delete;

  /// Throws c10::Error when it is open already, or when something else has replaced torch's CPU allocator.
  void open();
  /// Throws c10::Error unless it is this thread's innermost open scope.
  void close();

  /// Memory for a CPU allocation in this thread; empty when no scope is open or it does not want it.
  static c10::DataPtr allocate(std::size_t bytes);

 private:
  std::shared_ptr<SharedAllocator> allocator_;
  std::size_t least_;
  AllocationScope* outer_ = nullptr;
  bool open_ = false;
};

/// Whether the tensor's memory came from a SharedAllocator that shares, or was adopted (adoption.h); views of such tensors included.
bool is_shared(const at::Tensor& t);

}  // namespace unisono::torch_backend
