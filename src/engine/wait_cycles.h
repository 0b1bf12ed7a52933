#pragma once
/// Finds processes that wait for each other, in calls that can never end.
///
/// A thread that has waited for a second asks those it waits for in what they wait. One that waits,
/// too, confirms it: a confirmation travels behind all that its sender sent before. If the asker
/// still waits then, nothing from before can end its wait, and as long as the other one waits,
/// nothing new is sent: the first of such waits in a cycle to end has nothing to end it. So
/// confirmed waits that form a cycle never end, however old each confirmation is. Who has one says
/// so along confirmed waits; whoever hears its own words knows of a cycle, and tells all in it.
///
/// That holds where the thread that waits is the only one of its process that calls. Where it may
/// not be, the cycle is one line in the log, and part of a later Timeout.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "engine/messenger.h"
#include "engine/wait_notice.h"

namespace unisono::engine {

/// What a thread waits in. Thread-safety: the thread that waits.
class Blocked {
 public:
  virtual ~Blocked() = default;
  virtual std::uint64_t group() const = 0;
  /// The collective's number in the group; 0: a message is waited for.
  virtual std::uint64_t sequence() const = 0;
  /// This process's rank in the group.
  virtual int rank() const = 0;
  /// The messenger's numbers of those each of which has to do something before the wait can end.
  /// None while that is not known, or when what is waited for is on its way.
  virtual std::vector<int> peers() = 0;
  /// "rank 0 (host a, pid 7) waits in recv(src=1, tag=0) on group "world""
  virtual std::string describe() const = 0;
  /// Whether it goes on until what it waits for is there; false: the caller gives up by itself
  /// after a while.
  virtual bool lasts() const = 0;
  virtual void end(const Status& status) = 0;
};

/// How many collectives a group was asked for in this process, ended or not. Thread-safety: any
/// thread.
class Calls {
 public:
  virtual std::uint64_t called() const noexcept = 0;

 protected:
  ~Calls() = default;
};

/// Thread-safety: any thread.
class WaitCycles {
 public:
  /// Nothing is done, or sent, before a wait is that old.
  static constexpr Duration kPatience = std::chrono::seconds(1);

  /// `only_thread`: asked by a thread that waits, whether no other thread of the process can call.
  /// Before the messenger's first peer.
  WaitCycles(Messenger& messenger, const Clock& clock, PeerId self, Logger log, std::function<bool()> only_thread);
  ~WaitCycles();
  WaitCycles(const WaitCycles&) = delete;
  WaitCycles& operator=(const WaitCycles&) = delete;

  /// To be called in every call that sends, receives or waits.
  void note_caller() noexcept {
    if (caller_.load(std::memory_order_relaxed) != this_thread()) note_other();
  }
  /// Functions of the program that are to be called when something ends: they may send.
  const std::shared_ptr<UnderWay>& callbacks() const noexcept { return callbacks_; }
  void enlist(std::uint64_t group, std::weak_ptr<const Calls> calls);

  /// One wait. Thread-safety: the thread that waits.
  class Search {
   public:
    /// Both must outlive it. Costs nothing before look().
    Search(WaitCycles& cycles, Blocked& blocked, TimePoint started) noexcept;
    ~Search();
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;

    TimePoint first_look() const noexcept { return saturating_add(started_, kPatience); }
    /// Whether others have said something that look() has not seen.
    bool has_news() const noexcept { return state_ != nullptr && cycles_.news_.load(std::memory_order_relaxed); }
    /// To be called from first_look() on; when to call it again, at the latest. May end the wait.
    TimePoint look(TimePoint now);
    /// What the wait has ended with: a cycle that was found is the reason, or goes with it.
    Status explain(Status status) const;

   private:
    struct State;
    bool enter(TimePoint now);
    void ask();
    bool certain() const;
    void answer(int peer, const WaitNotice& question);
    void hear(int peer, const WaitNotice& notice);
    void on_confirm(int peer, const WaitNotice& notice);
    void on_path(const WaitNotice& notice);
    void on_cycle(const WaitNotice& notice);
    void note(const WaitNotice& notice);
    void pass_on(const WaitNotice& notice);
    WaitHop hop(bool certain) const;
    void send_path(std::span<const WaitHop> before, int peer);

    WaitCycles& cycles_;
    Blocked& blocked_;
    TimePoint started_;
    std::unique_ptr<State> state_;  ///< from when on it is the one wait that others hear of
  };

 private:
  struct Mail {
    int peer;
    WaitNotice notice;
  };
  static const void* this_thread() noexcept {
    static thread_local const char mark = 0;
    return &mark;
  }
  void note_other() noexcept;
  void hear(int peer, std::span<const std::byte> bytes);
  std::uint64_t enter();
  void leave();
  std::map<int, WaitNotice> take_questions();
  std::vector<Mail> take_mail();
  std::uint64_t called(std::uint64_t group) const;

  Messenger& messenger_;
  const Clock& clock_;
  Logger log_;
  const std::function<bool()> only_thread_;
  std::atomic<const void*> caller_{nullptr};  ///< the first; as this_thread() has it
  std::atomic<bool> several_callers_{false};
  const std::shared_ptr<UnderWay> callbacks_ = std::make_shared<UnderWay>(0);
  /// Never held while the messenger is asked: it calls hear() under its own.
  mutable std::mutex mutex_;
  std::uint64_t next_wait_;
  std::uint64_t current_ = 0;  ///< the wait that others hear of; 0: none
  /// By peer, the last one, until somebody waits who can answer.
  std::map<int, WaitNotice> questions_;
  std::atomic<bool> news_{false};  ///< there is a question, or mail
  std::vector<Mail> mail_;         ///< to the current wait
  std::unordered_map<std::uint64_t, std::weak_ptr<const Calls>> calls_;
};

}  // namespace unisono::engine
