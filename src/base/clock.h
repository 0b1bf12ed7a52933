#pragma once
/// The clock seam. The engine never asks the system for the time: it is told, or asks a Clock that was injected.

#include <chrono>

#include "unisono/store.hpp"

namespace unisono {

/// Monotonic time; immune to changes of the wall clock. The epoch is the Clock's own.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

/// Thread-safety: now() may be called from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const noexcept = 0;
};

/// CLOCK_MONOTONIC.
class SteadyClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return std::chrono::steady_clock::now(); }
};

/// Virtual time for tests and the simulator: stands still until told.
class ManualClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return now_; }
  void advance(Duration d) noexcept { now_ += d; }

 private:
  TimePoint now_{};
};

/// t + d without overflow: a huge timeout means "no deadline".
constexpr TimePoint saturating_add(TimePoint t, Duration d) noexcept {
  return d > TimePoint::max() - t ? TimePoint::max() : t + d;
}

}  // namespace unisono
