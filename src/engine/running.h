#pragma once
/// What a group runs: an operation that advances when asked and never blocks.

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/domain.h"
#include "engine/inbox.h"

namespace unisono::engine {

/// Thread-safety: one thread at a time.
class Running {
 public:
  virtual ~Running() = default;
  /// Do what can be done; whether anything was. After it look at done() and status().
  virtual bool advance() = 0;
  /// The group has failed: touch no peer's memory any more. Whether no peer touches the caller's buffers any more either
  /// (`gone` ranks have left); if not, call it again.
  virtual bool let_go(const std::vector<bool>& gone) {
    static_cast<void>(gone);
    return true;
  }
  /// Ranks whose part has not come, for the message of a timeout.
  virtual std::vector<int> waiting_for() const = 0;

  /// It takes long: do not wait any more for what others will soon be through with.
  virtual void hurry() {}
  /// Whether all ranks are known to have begun it.
  virtual bool everyone_here() { return false; }
  /// Of the plan that runs, which need not be the one that it was made with; empty when there is none.
  virtual std::string_view algorithm() const { return {}; }

  bool done() const noexcept { return done_; }
  const Status& status() const noexcept { return status_; }  ///< an error ends the operation (done() is true)
  /// After a mismatch: who called what.
  const Discord& discord() const noexcept { return discord_; }
  std::uint64_t sequence() const noexcept { return sequence_; }

 protected:
  explicit Running(std::uint64_t sequence) noexcept : sequence_(sequence) {}
  void fail(Status status) {
    status_ = std::move(status);
    done_ = true;
  }
  /// The group, which knows its name, says it in full.
  void fail(const Discord& discord) {
    discord_ = discord;
    fail(Status::mismatch("calls differ", -1, discord.rank));
  }
  /// Fails if a rank is found to have called something else before this; whether that was so.
  bool fail_of_the_last(const Domain& domain) {
    const int odd = domain.odd_one();
    const std::uint64_t last = sequence_ - 1;
    if (odd >= 0) fail(Discord{odd, last, domain.said(domain.rank(), last), domain.said(odd, last)});
    return odd >= 0;
  }

  std::uint64_t sequence_;
  bool done_ = false;
  Status status_;
  Discord discord_;
};

}  // namespace unisono::engine
