#include "group/progress.h"

#include <pthread.h>
#include <sched.h>

namespace unisono::group {

namespace {

/// How the thread waits while the application computes: it yields as long as that costs nobody anything, and then sleeps. A yield that
/// comes back late gave the core to somebody, whose turn lasts milliseconds; who sleeps and is woken has the core at once.
class ModestWait {
 public:
  explicit ModestWait(const Clock& clock) noexcept : clock_(clock) {}
  void reset() noexcept { since_ = TimePoint{}; }
  /// False when it is time to sleep. News from `sockets` come with long pauses between them, and a thread that stays awake for them
  /// keeps one that computes from moving to its core, even if it yields all the time.
  bool pause(bool sockets) noexcept {
    constexpr Duration kAwake = std::chrono::milliseconds(1), kAwakeForSockets = std::chrono::microseconds(20),
                       kTurn = std::chrono::microseconds(100);
    const TimePoint before = clock_.now();
    if (since_ == TimePoint{}) since_ = before;
    if (before - since_ > (sockets ? kAwakeForSockets : kAwake)) return false;
    ::sched_yield();
    return clock_.now() - before < kTurn;
  }

 private:
  const Clock& clock_;
  TimePoint since_{};
};

}  // namespace

Progress::Progress(engine::Messenger& messenger, transport::Poller& poller, const Clock& clock,
                   engine::WaitPolicy policy, std::unique_ptr<Apart> apart)
    : messenger_(messenger), poller_(poller), clock_(clock), policy_(policy), apart_(std::move(apart)) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(thread_mutex_);
    stop_.store(true);
  }
  thread_wake_.notify_all();
  poller_.wake();
  if (thread_.joinable()) thread_.join();
}

Progress::Attendance::Attendance(Progress& p) noexcept : progress_(p) {
  // The thread may sleep in the poller on behalf of the process: then peers would wake it at every signal. Call it back.
  if (p.attending_.fetch_add(1) == 0 && p.thread_parked_.load()) p.poller_.wake();
}

Progress::Attendance::~Attendance() {
  if (progress_.attending_.fetch_sub(1) != 1 || progress_.asynchronous_.load() == 0) return;
  const std::lock_guard lock(progress_.thread_mutex_);
  if (progress_.thread_idle_) progress_.thread_wake_.notify_one();
}

void Progress::enlist(std::weak_ptr<Driven> driven) {
  const std::lock_guard lock(thread_mutex_);
  std::erase_if(driven_, [](const auto& d) { return d.expired(); });
  driven_.push_back(std::move(driven));
}

void Progress::begin_asynchronous() {
  asynchronous_.fetch_add(1);
  if (attending_.load() > 0 && started_.load()) return;
  const std::lock_guard lock(thread_mutex_);
  if (!started_.load()) {
    started_.store(true);
    thread_ = std::thread([this] { run(); });
    ::pthread_setname_np(thread_.native_handle(), "unisono");
  } else if (thread_idle_) {
    thread_wake_.notify_one();
  } else if (thread_parked_.load()) {
    poller_.wake();  // it sleeps until a peer moves, but there is something new to begin
  }
}

void Progress::end_asynchronous() noexcept { asynchronous_.fetch_sub(1); }

bool Progress::advance_all() {
  std::vector<std::weak_ptr<Driven>> list;
  {
    const std::lock_guard lock(thread_mutex_);
    list = driven_;
  }
  bool moved = false;
  for (const auto& weak : list)
    if (const auto driven = weak.lock()) moved |= driven->advance();
  return moved;
}

void Progress::sleep_until_needed(std::unique_lock<std::mutex>& lock) {
  thread_idle_ = true;
  thread_wake_.wait(lock, [&] { return stop_.load() || (asynchronous_.load() > 0 && attending_.load() == 0); });
  thread_idle_ = false;
}

void Progress::run() {
  id_.store(std::this_thread::get_id());
  const auto unwanted = [&] { return stop_.load() || attending_.load() > 0 || asynchronous_.load() == 0; };
  while (true) {
    {
      std::unique_lock lock(thread_mutex_);
      if (unwanted()) sleep_until_needed(lock);
      if (stop_.load()) return;
    }
    ModestWait waiter(clock_);
    while (!unwanted()) {
      const bool moved = advance_all() | messenger_.poll(engine::Look::all);
      if (moved)
        waiter.reset();
      else if (!waiter.pause(messenger_.kernel_links())) {
        thread_parked_.store(true);
        park(saturating_add(clock_.now(), std::chrono::milliseconds(100)), [&] { return advance_all(); }, unwanted);
        thread_parked_.store(false);
      }
    }
  }
}

}  // namespace unisono::group
