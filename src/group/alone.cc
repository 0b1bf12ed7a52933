/// Blocking calls that find nothing else to run: no queue, no lock, no allocation.

#include <fmt/format.h>

#include "group/blocked_call.h"
#include "group/group_impl.h"

namespace unisono::detail {

/// The caller has the baton from the operation's begin to its end, and what it needs lies on the caller's stack. Thread-safety: of one thread.
class GroupImpl::Alone final : public group::Driven {
 public:
  /// Takes the baton, unless somebody has it or waits for it.
  Alone(GroupImpl& group, Pending& pending) noexcept : group_(group), pending_(pending) {
    if (group.queued_.load(std::memory_order_acquire) != 0 || group.baton_.exchange(true, std::memory_order_acq_rel))
      return;
    if (group.queued_.load(std::memory_order_acquire) == 0) {
      group.queued_.fetch_add(1, std::memory_order_release);  // destroy() waits for us, and others queue up
      held_ = true;
    } else {  // somebody was faster: take a place behind it
      group.baton_.store(false, std::memory_order_release);
    }
  }
  ~Alone() override {
    if (held_ && pending_.sequence != 0) {  // an exception has left it in the middle: memory ran out
      group_.fail(Status::internal("an operation was left in the middle by an exception"));
      while (held_) advance();
    }
    if (held_) release();
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;

  bool held() const noexcept { return held_; }
  bool advance() override {
    if (!held_) return false;
    const Step done = group_.step(pending_, status_, checks_);
    if (done == Step::ended) release();
    return done != Step::nothing;
  }
  const Status& status() const noexcept { return status_; }
  /// From now on also look for passed deadlines and lost peers while nothing moves: that reads the clock.
  void check() noexcept { checks_ = true; }

 private:
  void release() noexcept {
    held_ = false;
    group_.queued_.fetch_sub(1, std::memory_order_release);
    group_.hand_on_baton();
  }

  GroupImpl& group_;
  Pending& pending_;
  Status status_;
  bool held_ = false, checks_ = false;
};

/// Whoever came while a caller ran its own operation may sleep by now: nobody but that caller could do anything for it.
void GroupImpl::hand_on_baton() noexcept {
  if (!contended_.load(std::memory_order_relaxed)) {
    baton_.store(false, std::memory_order_release);
    return;
  }
  // A baton that was refused to another thread shows what that thread did before.
  baton_.exchange(false, std::memory_order_acq_rel);
  if (queued_.load(std::memory_order_acquire) != 0) parts_.context->progress->nudge();
}

bool GroupImpl::run_alone(const Call& call) {
  Pending p;
  p.call = call;
  p.requested = requested(call);
  Alone alone(*this, p);
  if (!alone.held()) return false;
  if (p.requested != nullptr) {  // refused before anything is sent
    throw_status(know(p));
    const engine::Bound& plan = p.known->prepared->usual;
    if (plan::needs_shared_buffers(p.requested->place)) refuse_private_buffers(p, plan.plan(), plan.binding);
  }
  const auto ended = [&] { return !alone.held(); };
  group::Progress& progress = *parts_.context->progress;
  if (!progress.soon(alone, one_host_, ended)) {
    const MarkedThread marked(holder_);
    set_clocks(p);  // a call that ends before needs none
    alone.check();
    // Only `usual` may be a plan of messages, also within a host; what may run instead of it goes through memory.
    const bool in_memory = one_host_ && p.known != nullptr && !p.known->prepared->usual.compiled->messages;
    BlockedInCollective blocked(*this, p.call, p.sequence);
    engine::WaitCycles::Search search(*parts_.context->cycles, blocked, p.started);
    if (progress.wait(&alone, TimePoint::max(), call.options.interrupted, ended, in_memory, &search) ==
        group::Progress::Outcome::interrupted) {
      if (!ended()) fail(interruption(name_of(call.collective)));
      progress.wait(&alone, TimePoint::max(), nullptr, ended);
    }
    throw_status(search.explain(alone.status()));
    return true;
  }
  throw_status(alone.status());
  return true;
}

}  // namespace unisono::detail
