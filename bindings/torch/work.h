#pragma once
/// c10d::Work over unisono::Work.

#include <ATen/ThreadLocalState.h>
#include <ATen/core/ivalue.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "errors.h"
#include "operation.h"
#include "world.h"

namespace unisono::torch_backend {

/// What operations leave in their back end: which failure came last, for getError(), and who waits.
struct Health {
  std::atomic<Failure> failure{Failure::none};
  std::atomic<int> callers{0};  ///< threads that wait in a call
};

/// A thread that waits in a call, while it lives. Once the process ends a daemon thread does not
/// come back from there: Python would end it, and C++ the process.
class Caller {
 public:
  Caller(Health& health, const Executor& executor) noexcept : health_(health), executor_(executor) {
    health_.callers++;
  }
  ~Caller() {
    if (may_stay_ && executor_.left()) stay();
    health_.callers--;
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

 private:
  Health& health_;
  const Executor& executor_;
  // Asked while the interpreter lives: at its end it says of every thread that it holds the lock.
  const bool may_stay_ = is_beside_python();
};

/// Have the results of those that are done in the user's tensors.
void complete(const Flights& flights);

/// An operation in flight, and all that must outlive it. Shared by the Work, its futures and unisono's completion.
/// Thread-safety: any thread.
class Flight : public std::enable_shared_from_this<Flight> {
 public:
  /// `what`: the operation and its group, for errors. `work` runs already.
  Flight(Operation operation, Recording recording, unisono::Work work, std::string what, std::shared_ptr<World> world,
         std::shared_ptr<Executor> executor, std::shared_ptr<Health> health);

  /// When the memory is staged: have it copied when the operation is done, whether or not somebody waits. Called once.
  void begin();
  /// Whether the results are in the user's tensors, or the error is known. Never waits for other ranks.
  bool completed();
  /// Wait for that. With a limit (> 0) throws DistBackendError when it passes; the operation goes on. Ctrl-C works.
  void wait(std::chrono::milliseconds limit);
  std::exception_ptr error();
  const Outcome& outcome() const { return outcome_; }
  Received received() const { return work_.received(); }
  c10::intrusive_ptr<c10::ivalue::Future> future();
  c10::intrusive_ptr<c10::ivalue::Future> result_future();
  /// The Work is gone: if the operation is not done, live until it is.
  static void let_go(std::shared_ptr<Flight> flight);

 private:
  void settle();
  void complete_futures();
  void watch();

  unisono::Work work_;
  std::string what_;
  std::shared_ptr<World> world_;
  std::shared_ptr<Executor> executor_;
  std::shared_ptr<Health> health_;
  const Flights earlier_;
  /// The mode of the thread that called (inference, gradients, ...): results are copied and callbacks run in it, whoever does that.
  const at::ThreadLocalState caller_;
  Outcome outcome_;

  std::mutex mutex_;  // guards what follows, but for settled_
  std::unique_ptr<Operation> operation_;
  Recording recording_;
  std::exception_ptr error_;
  Failure failure_ = Failure::none;
  bool watched_ = false;
  c10::intrusive_ptr<c10::ivalue::Future> future_, result_future_;
  std::atomic<bool> settled_{false};
};

/// The operations of a back end whose results are copied to the user's tensors when they are done, by whoever comes first: a thread of the executor, or one that waits.
/// Collectives are done in order, and the copies are not, so a barrier waits for those before it. Thread-safety: any thread.
class Landings {
 public:
  void add(const std::shared_ptr<Flight>& flight);
  /// All that may not have been copied yet.
  Flights pending();

 private:
  void prune();
  std::mutex mutex_;
  Flights flights_;
  std::size_t room_ = 64;  ///< until those that are gone are taken out
};

class PendingWork final : public c10d::Work {
 public:
  PendingWork(int rank, c10d::OpType type, std::uint64_t sequence, std::shared_ptr<Flight> flight)
      : Work(rank, type), flight_(std::move(flight)), sequence_number_(sequence) {}
  ~PendingWork() override { Flight::let_go(std::move(flight_)); }
  PendingWork(const PendingWork&) = delete;
  PendingWork& operator=(const PendingWork&) = delete;

  bool isCompleted() override { return flight_->completed(); }
  bool isSuccess() const override { return flight_->completed() && !flight_->error(); }
  std::exception_ptr exception() const override { return flight_->completed() ? flight_->error() : nullptr; }
  /// Who sent, for a receive that is done; otherwise -1.
  int sourceRank() const override { return flight_->completed() ? flight_->received().source : -1; }
  std::vector<at::Tensor> result() override;
  void synchronize() override {}
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return flight_->future(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return flight_->result_future(); }
  std::uint64_t getSequencenumber() const override { return sequence_number_; }

 private:
  std::shared_ptr<Flight> flight_;
  std::uint64_t sequence_number_;
};

}  // namespace unisono::torch_backend
