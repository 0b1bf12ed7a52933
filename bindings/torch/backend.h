#pragma once
/// The c10d back end "unisono".

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <unisono/group.hpp>
#include <vector>

#include "memory.h"
#include "operation.h"
#include "work.h"
#include "world.h"

namespace unisono::torch_backend {

/// A process group of torch over a unisono::Group. Collectives come to one unisono::Call each. A call with opts.asyncOp false runs
/// in the calling thread and returns nullptr, which c10d takes for "done"; otherwise a Work. Whatever is wrong with the arguments
/// is thrown before anything is sent.
///
/// Thread-safety: any thread; all ranks must issue collectives in the same order. Messages and collectives do not hold each
/// other up. Methods that wait must not be called with Python's lock held (torch's bindings release it).
class Backend final : public c10d::Backend {
 public:
  struct Options final : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds limit = kBackendDefaultTimeout)
        : c10d::Backend::Options("unisono", limit) {}
    /// Overrides what torch's Options have from 2.14 on; without it their copy would lose our type.
    c10::intrusive_ptr<c10d::Backend::Options> clone() const { return c10::make_intrusive<Options>(*this); }
  };
  using Tensors = std::vector<at::Tensor>;
  using Lists = std::vector<Tensors>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  /// Join: waits until all `size` ranks are there. `options` names the group and its ranks in the job's numbering
  /// (global_ranks_in_group, empty for the default group); it is kept and not copied.
  Backend(std::shared_ptr<Worlds> worlds, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
          c10::intrusive_ptr<Options> options);

  const std::string getBackendName() const override { return "unisono"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  const c10::intrusive_ptr<Options>& options() const { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override;
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& opts) override;
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& store,
                                          const c10::intrusive_ptr<c10d::Backend::Options>& opts, const int& rank,
                                          const int& size) override;
  /// Every operation in flight ends with an error, here and on the other ranks; so does every later call.
  void abort() override;
  /// Abort with a reason that the other ranks read.
  void abort_because(const std::string& reason);
  /// Finish what is in flight and leave the group.
  void shutdown() override;
  c10d::ErrorType getError() override;
  /// Numbers begin at 0 on all ranks: there is nothing to agree on.
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_.load(std::memory_order_relaxed); }
  void enableCollectivesTiming() override {}
  /// Tensors in memory that other ranks reach: FSDP2 asks for them, and DDP with DDP_DISABLE_COMM_MEM=0. `device`: -1 is the CPU.
  bool supportsTensorAlloc(c10::DeviceIndex device) override { return device < 0 && memory_->shares(); }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override { return memory_->tensor(size, options); }
  std::shared_ptr<c10::Allocator> getMemAllocator() override { return memory_; }
  const std::shared_ptr<SharedAllocator>& memory() const { return memory_; }
  /// "shm", "tcp", "mixed", "self".
  std::string transport() const { return std::string(group_->transport()); }

  // --- reductions.cc
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& opts) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  WorkPtr reduce_scatter(Tensors& outputs, Lists& inputs, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& opts) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  // --- sparse.cc
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  // --- movements.cc
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  WorkPtr allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_coalesced(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& opts) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  WorkPtr gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& opts) override;
  /// Into one tensor of the root's. Overrides what torch has from 2.14 on; its gather_into_tensor
  /// comes here, too. What the root alone gives wrongly does not abort the group: whoever waits for
  /// it hears of it when the root calls something else.
  WorkPtr gather_single(at::Tensor& output, at::Tensor& input, const c10d::GatherOptions& opts);
  WorkPtr scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& opts) override;
  // --- exchanges.cc
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                        std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions& opts) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  WorkPtr barrier(const c10d::BarrierOptions& opts) override;
  // --- messages.cc
  WorkPtr send(Tensors& tensors, int dst, int tag) override;
  WorkPtr recv(Tensors& tensors, int src, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  void monitoredBarrier(const c10d::BarrierOptions& opts, bool wait_all_ranks) override;

 private:
  using milliseconds = std::chrono::milliseconds;

  /// Run it (async false: nullptr) or start it.
  WorkPtr launch(Operation&& operation, bool async, milliseconds timeout);
  WorkPtr receive(Tensors& tensors, int src, int tag, const char* title, c10d::OpType type);
  WorkPtr message(Operation operation, int peer, const std::function<unisono::Work(const unisono::Options&)>& begin);
  WorkPtr in_flight(Operation&& operation, Recording recording, unisono::Work work, std::uint64_t record);
  /// Say that a collective, or a message, on the operation's memory begins (adoption.h). `reached`: whether others reach what is read, and what is
  /// written, when that is shared.
  void begin_on_memory(Operation& operation, std::pair<bool, bool> reached);
  /// An entry in the flight record for an operation that begins.
  std::uint64_t note(const Operation& operation, milliseconds timeout, int peer = -1);
  /// All operations are over: wait until what follows from that is, too, for a second at most. Who
  /// drops the group then has dropped its threads, descriptors and memory: no callback's thread
  /// holds them a little longer.
  void finish_callbacks();
  Duration limit(milliseconds timeout) const;
  /// "unisono:all_reduce on group "3" (global ranks 0, 2)".
  std::string describe(const char* title) const;
  void check_root(std::int64_t root, const char* what) const;
  /// Throws in a forked child, where this group, and its locks, are the parent's.
  void check_process(const char* title) const;
  /// Checks of what the root alone was given. When one fails the group is aborted: the others wait for the root already, and hear why.
  void at_root(const char* title, const std::function<void()>& checks);

  const c10::intrusive_ptr<Options> options_;
  const std::shared_ptr<Worlds> worlds_;
  std::shared_ptr<World> world_;
  std::shared_ptr<SharedAllocator> memory_;
  bool adopts_ = false;  // all ranks share memory: only then plans work on shared buffers
  std::string where_;    // of describe()
  const std::shared_ptr<Group> group_ = std::make_shared<Group>();
  std::atomic<std::int64_t> timeout_ms_;
  std::atomic<std::uint64_t> sequence_{0}, messages_{0};
  std::size_t recorded_group_ = 0;  // in the flight record
  std::atomic<std::int64_t> monitored_{0};
  std::shared_ptr<Health> health_ = std::make_shared<Health>();
  const std::shared_ptr<Executor> executor_ = std::make_shared<Executor>();
  Landings landings_;
};

}  // namespace unisono::torch_backend
