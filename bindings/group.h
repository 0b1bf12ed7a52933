#pragma once
/// A Group as Python holds it, with the memory of asynchronous operations whose Work was dropped.

#include <memory>
#include <utility>
#include <vector>

#include "core.h"

namespace unisono::python {

struct Operation;
class PyRegistration;

/// What a PyGroup and its Works share. GIL held for everything.
struct GroupState {
  explicit GroupState(Group g);
  ~GroupState();
  GroupState(const GroupState&) = delete;
  GroupState& operator=(const GroupState&) = delete;

  /// Finish operations that nobody waits for, once they are done, and let go of their memory.
  void sweep() noexcept;
  /// The arrays that were registered with the group have private memory again. Nothing may be in flight.
  void release_registrations() noexcept;

  Group group;
  bool destroyed = false;
  std::vector<std::pair<Work, std::unique_ptr<Operation>>> unwatched;
  std::vector<std::shared_ptr<PyRegistration>> registrations;
};

class PyGroup {
 public:
  explicit PyGroup(Group group) : state_(std::make_shared<GroupState>(std::move(group))) {}

  const Group& handle() const noexcept { return state_->group; }
  const std::shared_ptr<GroupState>& state() const noexcept { return state_; }

  std::shared_ptr<PyRegistration> register_array(nb::handle array);
  bool shares(nb::handle array) const;
  void destroy();
  bool destroyed() const noexcept { return state_->destroyed; }

 private:
  std::shared_ptr<GroupState> state_;
};

void register_collectives(nb::class_<PyGroup>& cls);
void register_point_to_point(nb::class_<PyGroup>& cls);
void register_object_collectives(nb::class_<PyGroup>& cls);
void register_varying(nb::class_<PyGroup>& cls);

}  // namespace unisono::python
