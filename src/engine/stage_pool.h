#pragma once
/// The stages of a process, lent to its groups: those that run one after another use one and the same.

#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "transport/transport.h"

namespace unisono::engine {

struct Stage;

/// Whoever may be lent a stage (a group's Domain), and knows how far its peers are. Asked under the pool's lock, by any thread, only while
/// the stage is not in use.
class StageHolder {
 public:
  /// Every peer has read what the holder's last operation put on `stage`, or never will.
  virtual bool read_by_all(const Stage& stage) const noexcept = 0;
  /// Every peer has at least begun that operation, so it reads or fails without waiting for anything else of this process.
  virtual bool begun_by_all(const Stage& stage) const noexcept = 0;

 protected:
  ~StageHolder() = default;
};

/// A piece of the process's segment that peers read.
struct Stage {
  static constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

  std::uint64_t offset = 0, bytes = 0;
  /// Of the operation that used it last, by the holder's count: its number, and the slices after which it is over; kNever while it runs, and when
  /// it has failed. Written while it is in use.
  std::uint64_t sequence = 0, slices = kNever;

  /// `me` begins operation number `operation` on it. False when it does not hold it any more, or somebody looks at it just now:
  /// then StagePool::lend decides. Thread-safety: against other holders.
  bool enter(StageHolder* me, std::uint64_t operation) noexcept {
    StageHolder* expected = me;
    if (!idle_for.compare_exchange_strong(expected, nullptr, std::memory_order_acquire, std::memory_order_relaxed))
      return false;
    begin(operation);
    return true;
  }
  /// Its operation is over here; peers may go on reading until they have finished `slices_now` slices.
  void leave(StageHolder* me, std::uint64_t slices_now) noexcept {
    slices = slices_now;
    idle_for.store(me, std::memory_order_release);
  }

 private:
  friend class StagePool;
  void begin(std::uint64_t operation) noexcept {
    sequence = operation;
    slices = kNever;
  }
  /// The holder, while it runs nothing; null while it does, while the pool looks, and when there is no holder.
  std::atomic<StageHolder*> idle_for{nullptr};
  StageHolder* holder = nullptr;  ///< null: nobody. Under the pool's lock
};

/// Groups that run at the same time have a stage each, so there are as many as groups have run at once. Nothing here waits, and lend() asks
/// its caller to come again only where peers are sure to be through soon (docs/design/0009-stages.md). Thread-safety: any thread.
class StagePool {
 public:
  /// What groups of 2 to 16 ranks need at most: with that, smaller groups within a group find its stage large enough.
  static constexpr std::uint64_t kLeast = 2 << 20;

  /// `segment` must outlive it. No stage is smaller than `least`.
  explicit StagePool(transport::SharedSegment& segment, std::uint64_t least = kLeast) noexcept
      : segment_(segment), least_(least) {}
  StagePool(const StagePool&) = delete;
  StagePool& operator=(const StagePool&) = delete;

  transport::SharedSegment& segment() const noexcept { return segment_; }

  /// One more group may come for a stage.
  void join() noexcept;
  /// A stage of at least `bytes` for operation number `operation` of `holder`, which is in use at once. `own`: the one that it had, or null. Null:
  /// peers are still reading the one that it is to get; ask again, and without `patient` when that takes long. An error when memory is full.
  Result<std::shared_ptr<Stage>> lend(StageHolder& holder, const std::shared_ptr<Stage>& own, std::uint64_t bytes,
                                      std::uint64_t operation, bool patient);
  /// The group of `holder` has ended. False, and nothing has changed, while peers may still read `own` (may be null): ask again. Then it goes
  /// back to the segment, unless it is the last one and there are other groups.
  bool leave(StageHolder& holder, const std::shared_ptr<Stage>& own) noexcept;
  /// The same without asking: what it holds is never used again.
  void abandon(StageHolder& holder, const std::shared_ptr<Stage>& own) noexcept;

 private:
  enum class Look : std::uint8_t {
    taken,  ///< nobody uses or reads it: it is now the caller's to hand on
    soon,   ///< nobody uses it, and those that still read it will be through
    busy
  };
  static Look look(Stage& stage) noexcept;
  static void let_be(Stage& stage) noexcept;
  std::shared_ptr<Stage> hand_over(std::size_t index, StageHolder& holder, std::uint64_t operation) noexcept;
  void give_back(std::size_t index) noexcept;
  void trim() noexcept;

  transport::SharedSegment& segment_;
  const std::uint64_t least_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Stage>> stages_;  ///< the one that was handed over last is the last
  int groups_ = 0;
};

}  // namespace unisono::engine
