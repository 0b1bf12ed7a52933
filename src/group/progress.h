#pragma once
/// Who makes progress: the callers that wait, else one thread of the process.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/messenger.h"
#include "engine/operation.h"
#include "engine/wait_cycles.h"
#include "engine/waiter.h"
#include "group/apart.h"
#include "group/berth.h"
#include "group/seat.h"
#include "transport/transport.h"

namespace unisono::group {

/// Something that advances when it is asked to: a group with operations in flight.
class Driven {
 public:
  virtual ~Driven() = default;
  /// Do what can be done now; whether anything was. Any thread; two at once do not meet.
  virtual bool advance() = 0;
};

/// Thread-safety: any thread.
class Progress final : public engine::Turns {
 public:
  /// Deadlines and departures are looked at when somebody is awake: at least this often.
  static constexpr Duration kLongestSleep = std::chrono::milliseconds(50);

  Progress(engine::Messenger& messenger, transport::Poller& poller, const Clock& clock, engine::WaitPolicy policy,
           std::unique_ptr<Apart> apart);
  ~Progress();  ///< stops the thread
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  enum class Outcome : std::uint8_t { done, deadline, interrupted };
  using Interrupted = bool (*)() noexcept;

  /// For how many looks it is worth while to wait for peers without giving the core away. Where ranks take turns on the cores, or are on one core, none can answer meanwhile.
  int short_wait() const noexcept { return ranks_take_turns() ? 1 : 64; }
  /// What the waits of this process have found about who else is on the cores.
  engine::Crowd& crowd() noexcept { return crowd_; }
  /// Whether there are more ranks than cores.
  bool cores_are_few() const noexcept { return policy_.load(std::memory_order_relaxed).spins == 0; }
  /// The same, or a peer is on this one's core just now.
  bool ranks_take_turns() const noexcept { return cores_are_few() || crowd_.core_is_shared(); }
  /// Whether done() comes within a few looks at `driven` and at the memory of peers, as it does when they answer at once: no clock is read for that, and
  /// the thread is not told. Not tried unless all that is waited for comes through memory (`in_memory`).
  template <class Done>
  bool soon(Driven& driven, bool in_memory, Done&& done);
  /// Drive `driven` (may be null) and the messenger in this thread until done() or `deadline`. `in_memory`: no message is waited for.
  /// `search`: whether that can ever come is asked when it has not come for long.
  template <class Done>
  Outcome wait(Driven* driven, TimePoint deadline, Interrupted interrupted, Done&& done, bool in_memory = false,
               engine::WaitCycles::Search* search = nullptr);

  /// For who does not wait() yet: yields, unless that would give the core to a stranger.
  bool give_way() noexcept override;
  /// For who asks again and again instead of waiting: one look at what has come.
  void look();
  void enlist(std::weak_ptr<Driven> driven);
  /// Where asynchronous operations count until they are complete. As long as there are any and no caller waits, the thread sees to them: to those that are
  /// soon over once nobody has waited for a millisecond or two.
  const std::shared_ptr<engine::UnderWay>& collectives() const noexcept { return collectives_; }
  const std::shared_ptr<engine::UnderWay>& messages() const noexcept { return messages_; }
  const std::shared_ptr<engine::UnderWay>& soon_over() const noexcept { return soon_over_; }
  /// There is one more; the first starts the thread.
  void rouse();
  /// The same for one that is soon over: it wakes nobody, as a rule.
  void doze();
  /// There is something to do that whoever sleeps could not see.
  void nudge() noexcept { poller_.wake(); }
  void set_policy(engine::WaitPolicy policy, std::optional<int> seat) noexcept {
    policy_.store(policy, std::memory_order_relaxed);
    seat_.take(seat);
  }
  const Clock& clock() const noexcept { return clock_; }
  bool on_its_thread() const noexcept { return id_.load() == std::this_thread::get_id(); }
  bool thread_started() const noexcept { return started_.load(std::memory_order_relaxed); }

 private:
  /// While it lives, the thread leaves the work to the caller.
  class Attendance {
   public:
    explicit Attendance(Progress& p) noexcept;
    ~Attendance();

   private:
    Progress& progress_;
  };
  template <class Advance, class Done>
  void park(TimePoint until, Advance&& advance, Done&& done);
  void run();
  bool advance_all();
  /// Whether messages are looked at in this round of a wait for something else: in every eighth, of all waits together, unless something asynchronous is
  /// under way.
  bool messages_are_due() noexcept {
    const std::uint32_t round = rounds_.load(std::memory_order_relaxed) + 1;
    rounds_.store(round, std::memory_order_relaxed);  // one that another thread counts meanwhile may be lost
    return round % 8 == 0 || asynchronous();
  }
  bool asynchronous() const noexcept { return messages_->load() > 0 || collectives_->load() > 0; }
  /// Whether the thread has to be awake. What is soon over does not ask for it.
  bool needed() const noexcept { return stop_.load() || (asynchronous() && attending_.load() == 0); }
  void start();
  void sleep_until_needed(std::unique_lock<std::mutex>& lock);
  bool left_alone(std::unique_lock<std::mutex>& lock);

  engine::Messenger& messenger_;
  transport::Poller& poller_;
  const Clock& clock_;
  std::atomic<engine::WaitPolicy> policy_;
  engine::Crowd crowd_{clock_};
  const std::unique_ptr<Apart> apart_;
  Seat seat_;
  Berth berth_;

  // One thread at a time sleeps in the poller; others wait for its news.
  std::mutex poller_mutex_;
  std::mutex news_mutex_;
  std::condition_variable news_;
  bool parked_ = false;
  std::uint64_t parkings_ = 0;

  std::atomic<std::uint32_t> looks_{0}, rounds_{0};
  std::atomic<int> attending_{0};
  std::atomic<std::uint32_t> attended_{0};  ///< how often somebody began to wait
  const std::shared_ptr<engine::UnderWay> collectives_ = std::make_shared<engine::UnderWay>(0),
                                          messages_ = std::make_shared<engine::UnderWay>(0),
                                          soon_over_ = std::make_shared<engine::UnderWay>(0);
  std::atomic<bool> started_{false}, stop_{false}, thread_parked_{false};
  std::mutex thread_mutex_;
  std::condition_variable thread_wake_;
  std::atomic<bool> thread_idle_{false}, thread_dozes_{false};
  std::vector<std::weak_ptr<Driven>> driven_;
  std::atomic<std::thread::id> id_{};
  std::thread thread_;
};

template <class Advance, class Done>
void Progress::park(TimePoint until, Advance&& advance, Done&& done) {
  const std::unique_lock sleeper(poller_mutex_, std::try_to_lock);
  if (!sleeper.owns_lock()) {
    std::unique_lock lock(news_mutex_);
    if (!parked_) return;  // about to wake or to sleep: look again
    const std::uint64_t parking = parkings_;
    lock.unlock();
    // What came before the other thread announced that it sleeps is seen here; what comes later wakes it, and it tells us.
    if (advance() || done()) return;
    lock.lock();
    news_.wait_until(lock, std::chrono::steady_clock::now() + std::chrono::milliseconds(100),
                     [&] { return !parked_ || parkings_ != parking; });
    return;
  }
  poller_.prepare();
  {
    const std::lock_guard lock(news_mutex_);
    parked_ = true;
    parkings_++;
  }
  if (advance() || messenger_.poll(engine::Look::all) || done()) {
    poller_.cancel();
  } else {
    const TimePoint now = clock_.now();
    const TimePoint wake = std::min({until, messenger_.next_deadline(), saturating_add(now, kLongestSleep)});
    if (wake > now)
      poller_.wait(wake - now);
    else
      poller_.cancel();
    messenger_.poll(engine::Look::all);
  }
  {
    const std::lock_guard lock(news_mutex_);
    parked_ = false;
  }
  news_.notify_all();
}

template <class Done>
bool Progress::soon(Driven& driven, bool in_memory, Done&& done) {
  constexpr int kBetweenPolls = 4;  // what is waited for comes through the group's own lines
  // News from elsewhere must be asked for, and 64 looks at memory would come before the first question.
  if (!in_memory) return done();
  for (int round = short_wait(); round > 0; round--) {
    if (done()) return true;
    driven.advance();
    if (done()) return true;
    if (round % kBetweenPolls == 0) messenger_.poll(engine::Look::memory);
  }
  return done();
}

template <class Done>
Progress::Outcome Progress::wait(Driven* driven, TimePoint deadline, Interrupted interrupted, Done&& done,
                                 bool in_memory, engine::WaitCycles::Search* search) {
  if (done()) return Outcome::done;
  const Attendance attendance(*this);
  // While it waits, this thread does the progress thread's work, too: a peer may be waiting for another of our operations.
  const auto advance = [&] {
    bool moved = driven != nullptr && driven->advance();
    if (collectives_->load(std::memory_order_relaxed) > 0) moved |= advance_all();
    return moved;
  };
  const engine::WaitPolicy policy = policy_.load(std::memory_order_relaxed);
  engine::Waiter waiter(policy, crowd_);
  apart_->wait_here();
  constexpr auto kBetweenQuestions = std::chrono::milliseconds(100);
  TimePoint next_question = interrupted == nullptr ? TimePoint::max() : saturating_add(clock_.now(), kBetweenQuestions);
  TimePoint next_look = search == nullptr ? TimePoint::max() : search->first_look();
  const auto ask = [&](TimePoint now) {
    if (now >= next_look || (search != nullptr && search->has_news())) next_look = search->look(now);
    if (now < next_question) return false;
    next_question = saturating_add(now, kBetweenQuestions);
    return interrupted();
  };
  for (std::uint32_t round = 0;; round++) {
    bool moved = advance();
    if (done()) return Outcome::done;
    // Memory is looked at each time; the kernel is asked now and then, unless it holds what we wait for.
    const bool asks = messenger_.kernel_links(), asks_all = round % 64 == 63;
    if (asks || asks_all || !in_memory || messages_are_due()) {
      moved |= messenger_.poll(asks ? engine::Look::quick : asks_all ? engine::Look::all : engine::Look::memory);
      if (done()) return Outcome::done;
    }
    if (round % 256 == 255) {
      const TimePoint now = clock_.now();
      if (now >= deadline) return Outcome::deadline;
      if (ask(now)) return Outcome::interrupted;
    }
    if (moved) {
      waiter.reset();
      continue;
    }
    if (waiter.pause(asks ? 10 : 1)) {
      if (policy.spins > 0 && crowd_.found_shared() && apart_->move()) crowd_.forget_shared();
      seat_.keep(clock_);
      continue;
    }
    const TimePoint now = clock_.now();
    if (now >= deadline) return Outcome::deadline;
    if (ask(now)) return Outcome::interrupted;
    park(std::min({deadline, next_question, next_look}), advance, done);
  }
}

}  // namespace unisono::group
