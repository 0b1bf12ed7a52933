#pragma once
/// Asking a store that may have stopped: an answer is waited for no longer than the caller has
/// time.

#include <memory>

#include "base/clock.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// A store whose server may fall silent. Thread-safety: any thread.
class AnswersInTime {
 public:
  virtual ~AnswersInTime() = default;
  /// The same store; but what is asked through the view is Timeout when the server has not answered
  /// at `deadline`, or a moment after the call where that has passed. The store must outlive the
  /// view. Nothing: it answers as long as it wants to.
  virtual std::shared_ptr<Store> answering_by(TimePoint deadline) = 0;
};

/// The same for any store; nothing for a file and those of other libraries.
inline std::shared_ptr<Store> answering_by(Store& store, TimePoint deadline) {
  auto* in_time = dynamic_cast<AnswersInTime*>(&store);
  return in_time == nullptr ? nullptr : in_time->answering_by(deadline);
}

/// `store` itself where it answers as long as it wants to.
inline std::shared_ptr<Store> in_time(const std::shared_ptr<Store>& store, TimePoint deadline) {
  auto view = answering_by(*store, deadline);
  return view == nullptr ? store : view;
}

}  // namespace unisono::rendezvous
