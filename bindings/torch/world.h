#pragma once
/// What the groups of one process share, and who holds it.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unisono/group.hpp>
#include <vector>

#include "executor.h"
#include "store.h"

namespace unisono::torch_backend {

/// One process's place in one job: transports, shared memory, the progress thread, threads for callbacks. Lives as long as the
/// last group or operation that uses it.
struct World {
  explicit World(Config config) : context(std::move(config)) {}
  Context context;
  Executor executor;
};

/// The world of the default group, for the groups within it. One object a process, held by the Python module.
/// Thread-safety: any thread.
class Worlds {
 public:
  /// A new world for the default group (`rank` of `size` ranks), whose settings come from the environment and whose secret, unless
  /// one is configured, rank 0 hands to the others through torch's store: whoever can read that store can join.
  std::shared_ptr<World> found(TorchStore& store, int rank, int size, Duration timeout);
  /// The default group's world, for one of its subgroups; when there is none (the default group is another back end's), a world
  /// for this group alone.
  std::shared_ptr<World> share(TorchStore& store, int rank, int size, Duration timeout);

  /// Remember a group for leave().
  void enlist(const std::shared_ptr<Group>& group);
  /// The process ends without having destroyed its groups: leave them, so that the other ranks get what is on its way to them. With a
  /// reason (an uncaught exception): tell it to them first. Waits for a second a group at most.
  void leave(const std::optional<std::string>& reason) noexcept;

 private:
  std::mutex mutex_;
  std::weak_ptr<World> current_;
  std::vector<std::weak_ptr<Group>> groups_;
};

}  // namespace unisono::torch_backend
