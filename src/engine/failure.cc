#include "engine/failure.h"

namespace unisono::engine {

bool Failure::set(const Status& status) {
  const std::lock_guard lock(mutex_);
  if (failed_.load(std::memory_order_relaxed)) return false;
  status_ = status;
  failed_.store(true, std::memory_order_release);
  return true;
}

Status Failure::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

}  // namespace unisono::engine
