#pragma once
/// What is behind unisono::Latecomers.

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/process_mark.h"
#include "unisono/store.hpp"

namespace unisono::detail {

/// Stores that rank 0 serves, for a moment after their worlds could not be joined. Thread-safety:
/// any thread.
class Lingering {
 public:
  Lingering() = default;
  ~Lingering() { wait(); }
  Lingering(const Lingering&) = delete;
  Lingering& operator=(const Lingering&) = delete;

  /// Keep `store` until all of `size` ranks have begun to join `group`, 3 s at most: those that
  /// come late read there why the world cannot be. Returns at once. `host`, `pid`: this process.
  void keep(std::shared_ptr<Store> store, std::string group, int size, std::string host, std::int64_t pid);
  /// Block until none is kept.
  void wait();
  /// Let go of them now, and block until that is done: init() is called again, and meets others at
  /// a store of its own.
  void stop();

 private:
  const ProcessMark process_;
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

}  // namespace unisono::detail
