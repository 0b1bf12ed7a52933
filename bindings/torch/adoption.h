#pragma once
/// Tensors that collectives and messages come back to: their memory becomes shared memory where it is, so that programs which know nothing of
/// shared_allocator() have its speed, too. docs/design/0012-memory-that-comes-back.md says why that is safe for tensors.

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unisono/group.hpp>

namespace unisono::torch_backend {

class World;

/// What is known of one storage, from the first collective on it until it is freed: it owns the storage's memory.
class Adopted {
 public:
  Adopted(c10::DataPtr memory, std::size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {}
  /// Gives shared pages back before the memory is freed.
  ~Adopted();
  Adopted(const Adopted&) = delete;
  Adopted& operator=(const Adopted&) = delete;

  /// t's; empty when there is none.
  static std::shared_ptr<Adopted> of(const at::Tensor& t);
  /// Whether other ranks reach it now.
  bool shared() const noexcept { return shared_.load(std::memory_order_relaxed); }

 private:
  friend class Adopter;
  c10::DataPtr memory_;  ///< as torch allocated it
  std::size_t bytes_;
  std::uint64_t uses_ = 0;
  bool refused_ = false;
  std::atomic<bool> shared_{false};
  Registration registration_;
  std::weak_ptr<World> world_;                         ///< whose ranks it is shared with
  std::shared_ptr<std::atomic<std::uint64_t>> total_;  ///< what all that is registered comes to
};

/// Decides which storages are worth it. One for the process. Thread-safety: any thread.
class Adopter {
 public:
  /// Nothing is adopted with UNISONO_SHARE_MEMORY=0.
  static std::shared_ptr<Adopter> from_environment();
  explicit Adopter(bool enabled) : enabled_(enabled) {}

  /// A collective or a message on `t` begins, among `ranks` of this host; what this returns must live until it has ended. `reached`: others of them read or write
  /// all of t when it is shared. The third time, and when that was for 128 MiB in all, t's memory is registered with `world`, which takes about as
  /// long as six copies of it: only a storage of ordinary memory from torch's own allocator, of 256 KiB and more, which t covers and no other operation uses just
  /// now; and an eighth of the machine's memory at most, for all ranks together.
  std::shared_ptr<void> begin(const std::shared_ptr<World>& world, int ranks, const at::Tensor& t, bool reached);
  /// The process has forked, and where something was adopted that took a copy for the child: it may do so again, so with the next collective on each of
  /// them tensors become private, and stay so.
  void forked() noexcept;

 private:
  std::shared_ptr<Adopted> record_of(const at::Tensor& t);
  void adopt(const std::shared_ptr<World>& world, int ranks, Adopted& record, const at::Tensor& t);

  const bool enabled_;
  std::mutex mutex_;
  bool forks_ = false;
  std::shared_ptr<std::atomic<std::uint64_t>> total_ = std::make_shared<std::atomic<std::uint64_t>>(0);
};

}  // namespace unisono::torch_backend
