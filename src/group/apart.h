#pragma once
/// Ranks that the system has put on one processor, though others are free, move apart by themselves.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "base/clock.h"
#include "base/handshake.h"
#include "base/log.h"
#include "engine/messenger.h"
#include "transport/transport.h"

namespace unisono::group {

/// Which of the processors `usable` a rank goes to that waits on processor `here`, as do some of its `neighbours`; none: it stays. Of those on one processor the one
/// with the least id stays and the others go, each to another of those on which nobody is known to wait, nearest number first; who goes for the n-th time (from 0) leaves out n,
/// as somebody else may compute there.
std::optional<int> way_out(int here, const PeerId& self, std::span<const engine::Messenger::Neighbour> neighbours,
                           std::span<const int> usable, std::uint32_t n);

/// The system puts a new process where it finds room, and notices only after 5 to 60 ms that two of them wait for each other: whatever is exchanged in that time
/// takes 3 to 10 times as long. A rank that has found, by its yields, that somebody is on its processor asks its peers, who say in shared memory where they wait. The thread that
/// waits moves; where it may run stays as it was. Thread-safety: any thread.
class Apart {
 public:
  /// `segment` may be null: then nobody knows where the others are.
  Apart(engine::Messenger& messenger, std::shared_ptr<transport::SharedSegment> segment, const PeerId& self,
        const Clock& clock, const Logger& log);

  /// This thread begins to wait: peers are told where.
  void wait_here() noexcept;
  /// Somebody is on this thread's processor. True when it is on another one now. Not more often than every 10 ms, and ever less often; not while more threads
  /// could run than there are processors.
  bool move();

 private:
  static constexpr Duration kBetweenQuestions = std::chrono::milliseconds(1);

  engine::Messenger& messenger_;
  const std::shared_ptr<transport::SharedSegment> segment_;
  const PeerId self_;
  const Clock& clock_;
  const Logger log_;
  std::atomic<int> said_{-1};
  std::mutex mutex_;
  TimePoint next_{};
  Duration pause_ = std::chrono::milliseconds(10);  ///< until the next move
  std::uint32_t moves_ = 0;
};

}  // namespace unisono::group
