#pragma once
/// What the groups of one process share, and who holds it.

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unisono/group.hpp>
#include <vector>

#include "adoption.h"
#include "executor.h"
#include "flight_record.h"
#include "store.h"

namespace unisono::torch_backend {

/// One process's place in one job: transports, shared memory, the progress thread. Lives as long as
/// the last group or operation that uses it. Thread-safety: any thread.
class World {
 public:
  /// Its end does nothing in a forked child: threads and connections are the parent's.
  static std::shared_ptr<World> create(Config config);
  explicit World(Config config) : context(std::move(config)) {}
  /// False in a forked child of the process in which it was made.
  bool made_here() const noexcept { return context.made_here(); }

  Context context;
};

/// A process's place in a group that is made.
struct Place {
  int rank = 0, size = 1;  ///< in the group
  int global_rank = 0;     ///< in the job: for people
  Duration timeout{};
};

struct Health;

/// A group, what runs its callbacks, and who waits in its calls.
struct Member {
  std::weak_ptr<World> world;
  std::weak_ptr<Group> group;
  std::weak_ptr<Executor> executor;
  std::weak_ptr<Health> health;
};

/// The world of the default group, for the groups within it. One object a process, held by the Python module.
/// Thread-safety: any thread.
class Worlds {
 public:
  /// A new world for the default group, whose settings come from the environment. Unless a secret is configured the
  /// ranks agree on one (unisono/secret.hpp). Blocks until all of them have come.
  std::shared_ptr<World> found(TorchStore& store, const Place& place);
  /// The default group's world, for one of its subgroups; when there is none (the default group is another back end's),
  /// a world for this group alone.
  std::shared_ptr<World> share(TorchStore& store, const Place& place);
  /// What the groups did last; also of groups that are gone.
  const std::shared_ptr<FlightRecord>& record() const noexcept { return record_; }

  /// Which tensors' memory is shared by itself.
  const std::shared_ptr<Adopter>& adopter() const noexcept { return adopter_; }

  /// The default group was destroyed: later subgroups do not belong to its world, though somebody may still hold it.
  void retire(const std::shared_ptr<World>& world);
  /// Remember a group, and the threads of its callbacks, for leave().
  void enlist(Member member);
  /// The process ends without having destroyed its groups: leave them, so that the other ranks get
  /// what is on its way to them. With a reason (an uncaught exception): tell it to them first.
  /// Otherwise waits for what was sent and not waited for: five seconds, and a second a group, at
  /// most.
  void leave(const std::optional<std::string>& reason) noexcept;

 private:
  std::mutex mutex_;
  std::weak_ptr<World> current_;
  std::vector<Member> members_;
  const std::shared_ptr<Adopter> adopter_ = Adopter::from_environment();
  const std::shared_ptr<FlightRecord> record_ = FlightRecord::from_environment();
};

}  // namespace unisono::torch_backend
