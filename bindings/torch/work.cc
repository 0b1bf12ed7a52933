#include "work.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/Logging.h>

#include <algorithm>

#include "tensors.h"

namespace unisono::torch_backend {
namespace {

using c10::ivalue::Future;
using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;

c10::IValue value_of(const Outcome& outcome) {
  if (outcome.form == Outcome::Form::nested) return c10::IValue(outcome.tensors);
  std::vector<at::Tensor> list = outcome.tensors.empty() ? std::vector<at::Tensor>{} : outcome.tensors.front();
  if (outcome.form == Outcome::Form::stacked) list = {stacked(list)};
  return c10::IValue(std::move(list));
}

c10::TypePtr type_of(const Outcome& outcome) {
  const c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
  return outcome.form == Outcome::Form::nested ? c10::ListType::create(list) : list;
}

c10d::WorkResult result_of(Failure failure, const std::exception_ptr& error) {
  switch (failure) {
    case Failure::none:
      return error ? c10d::WorkResult::UNKNOWN : c10d::WorkResult::SUCCESS;
    case Failure::timeout:
      return c10d::WorkResult::TIMEOUT;
    default:
      return c10d::WorkResult::COMM_ERROR;
  }
}

}  // namespace

Flight::Flight(Operation operation, Recording recording, unisono::Work work, std::string what,
               std::shared_ptr<World> world, std::shared_ptr<Executor> executor, std::shared_ptr<Health> health)
    : work_(std::move(work)),
      what_(std::move(what)),
      world_(std::move(world)),
      executor_(std::move(executor)),
      health_(std::move(health)),
      earlier_(std::move(operation.earlier)),
      outcome_(std::move(operation.outcome)),
      operation_(std::make_unique<Operation>(std::move(operation))),
      recording_(std::move(recording)) {}

void Flight::begin() {
  if (!operation_->finish) return;
  const std::lock_guard lock(mutex_);
  watch();
}

/// Under mutex_: have settle() and the futures' completion run in a thread of the executor when the operation is done.
void Flight::watch() {
  if (std::exchange(watched_, true)) return;
  executor_->expect();
  auto move_on = [flight = shared_from_this()]() mutable {
    // In the progress thread, which must not wait for anybody: not for a callback, nor for Python's lock, which freeing a tensor
    // may need. So the flight moves on.
    const std::shared_ptr<Executor> executor = flight->executor_;
    if (executor->left()) {
      new std::shared_ptr<Flight>(std::move(flight));  // the process ends; what it holds cannot be freed any more
      return;
    }
    executor->post([flight = std::move(flight)]() mutable {
      const std::shared_ptr<Executor> ours = flight->executor_;
      flight->settle();
      flight->complete_futures();
      flight.reset();  // it may be the last that holds the group's memory and threads
      ours->finished();
    });
  };
  work_.on_done(std::move(move_on), false);  // complete_futures() tells
}

void Flight::let_go(std::shared_ptr<Flight> flight) {
  if (!flight || flight->settled_.load(std::memory_order_acquire)) return;
  Flight& f = *flight;
  if (!f.world_
           ->made_here()) {  // a forked child: nobody there can end the operation, or unlock what another thread held
    new std::shared_ptr<Flight>(std::move(flight));
    return;
  }
  const std::lock_guard lock(f.mutex_);
  f.work_.disown();
  if (f.work_.done()) return;
  f.watch();
}

void Flight::settle() {
  if (settled_.load(std::memory_order_acquire)) return;
  complete(earlier_);  // before our lock: those take theirs, and free tensors
  // Inputs and staging memory can go, but not under the lock: freeing a tensor may need Python's lock, whose holder may be
  // waiting for this one in future().
  std::unique_ptr<Operation> spent;
  const std::lock_guard lock(mutex_);
  if (settled_.load(std::memory_order_relaxed)) return;
  // UNISONO_DEBUG=buffers: what staging memory holds from here on is nobody's concern.
  (void)work_.done();
  try {
    const std::exception_ptr raw = work_.error();
    failure_ = kind_of(raw);
    error_ = translate(raw, what_);
    if (!error_ && operation_->finish) {
      const at::ThreadLocalStateGuard as_caller(caller_);
      // A Python dispatch mode must not see our copies: it would need Python's lock while we hold ours.
      const c10::impl::ExcludeDispatchKeyGuard no_python(c10::python_ks);
      operation_->finish();
    }
  } catch (...) {
    error_ = std::current_exception();
    failure_ = Failure::communication;
  }
  if (failure_ != Failure::none) health_->failure.store(failure_);
  recording_.end();
  spent = std::move(operation_);
  settled_.store(true, std::memory_order_release);
}

bool Flight::completed() {
  if (settled_.load(std::memory_order_acquire)) return true;
  if (!work_.done()) return false;
  settle();
  return true;
}

void Flight::wait(milliseconds limit) {
  const Caller caller(*health_, *executor_);
  const auto until = SteadyClock::now() + saturated(limit);
  while (!work_.done()) {
    Duration left = Duration::max();
    if (limit > milliseconds(0)) left = std::max<Duration>(until - SteadyClock::now(), Duration(0));
    try {
      work_.wait(left, &python_interrupted);
    } catch (const Error&) {
      if (work_.done()) break;
      if (limit > milliseconds(0) && SteadyClock::now() >= until)
        C10_THROW_ERROR(DistBackendError, c10::str(what_, ": timeout : wait() gave up after ", limit.count(),
                                                   " ms; the operation goes on: wait again, or abort the group"));
      throw_python_error();
    }
  }
  settle();
  c10::intrusive_ptr<Future> future;
  {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = translate(work_.error(), what_);  // what UNISONO_DEBUG=buffers has found since
    future = future_;
  }
  if (error_) {
    throw_python_error();
    std::rethrow_exception(error_);
  }
  if (future) future->wait();  // who has waited for the work finds its future completed
}

std::exception_ptr Flight::error() {
  const std::lock_guard lock(mutex_);
  return error_;
}

c10::intrusive_ptr<Future> Flight::future() {
  completed();
  const std::lock_guard lock(mutex_);
  const bool done = settled_.load(std::memory_order_relaxed);
  if (future_) return future_;
  future_ = c10::make_intrusive<Future>(type_of(outcome_));
  if (done) {
    error_ ? future_->setError(error_) : future_->markCompleted(value_of(outcome_));
  } else {
    watch();
  }
  return future_;
}

c10::intrusive_ptr<Future> Flight::result_future() {
  completed();
  const std::lock_guard lock(mutex_);
  const bool done = settled_.load(std::memory_order_relaxed);
  if (result_future_) return result_future_;
  result_future_ = c10::make_intrusive<Future>(c10::IntType::get());
  if (done)
    result_future_->markCompleted(c10::IValue(static_cast<std::int64_t>(result_of(failure_, error_))));
  else
    watch();
  return result_future_;
}

/// After settle(), in a thread of the executor: callbacks run here.
void Flight::complete_futures() {
  c10::intrusive_ptr<Future> future, result;
  {
    const std::lock_guard lock(mutex_);
    future = future_;
    result = result_future_;
  }
  if (future || result) (void)work_.done();  // the program learns of it
  try {
    const at::ThreadLocalStateGuard as_caller(caller_);
    if (result && !result->completed())
      result->markCompleted(c10::IValue(static_cast<std::int64_t>(result_of(failure_, error_))));
    if (future && !future->completed()) error_ ? future->setError(error_) : future->markCompleted(value_of(outcome_));
  } catch (const std::exception& e) {
    LOG(ERROR) << what_ << ": a callback of its future raised: " << e.what();
  }
}

// --- several ---------------------------------------------------------------------------------------------------------

void complete(const Flights& flights) {
  for (const auto& weak : flights)
    if (const auto flight = weak.lock()) flight->completed();
}

void Landings::add(const std::shared_ptr<Flight>& flight) {
  const std::lock_guard lock(mutex_);
  if (flights_.size() >= room_) prune();
  flights_.push_back(flight);
}

Flights Landings::pending() {
  const std::lock_guard lock(mutex_);
  prune();
  return flights_;
}

void Landings::prune() {
  std::erase_if(flights_, [](const auto& weak) { return weak.expired(); });
  room_ = std::max<std::size_t>(64, 2 * flights_.size());
}

// --- PendingWork -----------------------------------------------------------------------------------------------------

std::vector<at::Tensor> PendingWork::result() {
  TORCH_CHECK(flight_->completed(), "unisono: result() of an operation that is not done; wait() first");
  std::vector<at::Tensor> all;
  for (const auto& list : flight_->outcome().tensors) all.insert(all.end(), list.begin(), list.end());
  return all;
}

bool PendingWork::wait(milliseconds timeout) {
  flight_->wait(timeout);
  return true;
}

void PendingWork::abort() {
  TORCH_CHECK(false,
              "unisono: one operation cannot be aborted alone, for the other ranks take part in it; abort its "
              "group: torch.distributed.distributed_c10d._abort_process_group(group)");
}

}  // namespace unisono::torch_backend
