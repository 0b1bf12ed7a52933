#include "group/progress.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

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
  p.attended_.fetch_add(1, std::memory_order_relaxed);
  // The thread may sleep in the poller on behalf of the process: then peers would wake it at every signal. Call it back.
  if (p.attending_.fetch_add(1) == 0 && p.thread_parked_.load()) p.poller_.wake();
}

Progress::Attendance::~Attendance() {
  if (progress_.attending_.fetch_sub(1) != 1 || !progress_.asynchronous()) return;
  const std::lock_guard lock(progress_.thread_mutex_);
  if (progress_.thread_idle_.load()) progress_.thread_wake_.notify_one();
}

void Progress::enlist(std::weak_ptr<Driven> driven) {
  const std::lock_guard lock(thread_mutex_);
  std::erase_if(driven_, [](const auto& d) { return d.expired(); });
  driven_.push_back(std::move(driven));
}

bool Progress::give_way() noexcept {
  if (crowd_.here()) return false;
  crowd_.yield();
  seat_.keep(clock_);
  return true;
}

void Progress::look() {
  const bool all = looks_.fetch_add(1, std::memory_order_relaxed) % 64 == 63;
  messenger_.poll(all ? engine::Look::all : messenger_.kernel_links() ? engine::Look::quick : engine::Look::memory);
}

void Progress::start() {
  started_.store(true);
  thread_ = std::thread([this] { run(); });
  ::pthread_setname_np(thread_.native_handle(), "unisono");
}

void Progress::doze() {
  if (started_.load() && (!thread_idle_.load() || thread_dozes_.load())) return;
  const std::lock_guard lock(thread_mutex_);
  if (!started_.load())
    start();
  else if (thread_idle_.load())
    thread_wake_.notify_one();
}

void Progress::rouse() {
  if (!on_its_thread()) berth_.begun_here();
  // Whoever attends, or the thread that is awake, looks for what there is once more before it leaves, or sleeps.
  if (started_.load() && (attending_.load() > 0 || (!thread_idle_.load() && !thread_parked_.load()))) return;
  const std::lock_guard lock(thread_mutex_);
  if (!started_.load()) {
    start();
  } else if (thread_idle_.load()) {
    thread_wake_.notify_one();
  } else if (thread_parked_.load()) {
    poller_.wake();  // it sleeps until a peer moves, but there is something new to begin
  }
}

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
  thread_idle_.store(true);
  do thread_wake_.wait(lock, [&] { return needed() || soon_over_->load() > 0; });
  while (!needed() && !left_alone(lock));
  thread_idle_.store(false);
}

/// Whether nobody waits for what is soon over, for the length of a nap. To nap costs nobody anything, while to be woken for each of a row of short messages takes
/// longer than they take; so naps go on for a while after the last one. False when there have been none for so long, or something else is to be seen to.
bool Progress::left_alone(std::unique_lock<std::mutex>& lock) {
  constexpr Duration kNap = std::chrono::milliseconds(1), kLongNap = std::chrono::milliseconds(16);
  constexpr int kNapsAfterTheLast = 100;
  Duration nap = kNap;
  bool alone = false;
  thread_dozes_.store(true);
  for (int naps = kNapsAfterTheLast; naps > 0 && !alone; naps--) {
    const std::uint32_t attended = attended_.load(std::memory_order_relaxed);
    const bool some = soon_over_->load() > 0;
    if (some) naps = kNapsAfterTheLast;
    nap = attending_.load() > 0 ? std::min(2 * nap, kLongNap) : kNap;
    if (thread_wake_.wait_for(lock, nap, [&] { return needed(); })) break;
    alone = some && soon_over_->load() > 0 && attending_.load() == 0 &&
            attended == attended_.load(std::memory_order_relaxed);
  }
  thread_dozes_.store(false);
  return alone;
}

void Progress::run() {
  id_.store(std::this_thread::get_id());
  const auto unwanted = [&] {
    return stop_.load() || attending_.load() > 0 || !(asynchronous() || soon_over_->load() > 0);
  };
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
        berth_.keep(clock_.now());
      }
    }
  }
}

}  // namespace unisono::group
