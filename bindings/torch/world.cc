#include "world.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <unisono/secret.hpp>

#include "errors.h"
#include "work.h"

namespace unisono::torch_backend {
namespace {

/// Whether the launcher says that all ranks are on this host.
bool launched_on_one_host() {
  const char* here = std::getenv("LOCAL_WORLD_SIZE");
  const char* all = std::getenv("WORLD_SIZE");
  return here != nullptr && all != nullptr && std::string_view(here) == all;
}

/// This process's settings. When they cannot be read the other ranks hear so, too.
Config settings(TorchStore& store, const Place& place, SecretTerms& terms) {
  try {
    Config config = Config::settings_from_env();
    config.rank = place.global_rank;
    config.size = place.size;
    config.timeout = place.timeout;
    config.only_thread = &is_only_python_thread;
    config.share_memory = false;  // of tensors we know more, and see to it ourselves (adoption.h)
    config.init_timeout = std::min(config.init_timeout, place.timeout);
    return config;
  } catch (const Error& e) {
    decline_secret(store, terms, e.what());
    throw;
  }
}

std::shared_ptr<World> make_world(TorchStore& store, const Place& place) {
  SecretTerms terms;
  terms.rank = place.rank;
  terms.size = place.size;
  Config config = settings(store, place, terms);
  if (config.secret.empty()) {
    terms.timeout = config.init_timeout;
    terms.one_host = store.on_this_host() || launched_on_one_host();
    terms.strict = config.strict;
    terms.allow_insecure = config.allow_insecure;
    config.secret = agree_on_secret(store, terms);
  }
  return World::create(std::move(config));
}

}  // namespace

std::shared_ptr<World> World::create(Config config) {
  return {new World(std::move(config)), [](World* world) {
            if (world->made_here()) delete world;
          }};
}

std::shared_ptr<World> Worlds::found(TorchStore& store, const Place& place) {
  auto world = make_world(store, place);
  const std::lock_guard lock(mutex_);
  current_ = world;
  return world;
}

std::shared_ptr<World> Worlds::share(TorchStore& store, const Place& place) {
  {
    const std::lock_guard lock(mutex_);
    if (auto world = current_.lock(); world && world->made_here()) return world;
  }
  return make_world(store, place);
}

void Worlds::retire(const std::shared_ptr<World>& world) {
  const std::lock_guard lock(mutex_);
  if (current_.lock() == world) current_.reset();
}

void Worlds::enlist(Member member) {
  const std::lock_guard lock(mutex_);
  std::erase_if(members_, [](const Member& m) { return m.executor.expired(); });
  members_.push_back(std::move(member));
}

void Worlds::leave(const std::optional<std::string>& reason) noexcept {
  std::vector<Member> members;
  {
    const std::lock_guard lock(mutex_);
    members.swap(members_);
  }
  // Of a forked child's the locks, too, are its parent's.
  std::erase_if(members, [](const Member& m) {
    const auto world = m.world.lock();
    return !world || !world->made_here();
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(reason ? 0 : 5);
  for (const Member& member : members)
    if (const auto executor = member.executor.lock())
      executor->leave(std::max(Duration{}, Duration(until - std::chrono::steady_clock::now())));
  for (const Member& member : members) try {
      const auto group = member.group.lock();
      if (!group || !*group) continue;
      if (reason) group->abort(*reason);
      const auto health = member.health.lock();
      if (health && health->callers > 0) {
        // A daemon thread waits there. It must neither lose the group nor come back: Python would
        // end it, and C++ the process.
        new std::shared_ptr<Group>(group);
        continue;
      }
      *group = Group();       // the last handle: leaves, with patience for what is in flight
    } catch (const Error&) {  // destroyed or failed before: there is nobody to tell
    }
}

}  // namespace unisono::torch_backend
