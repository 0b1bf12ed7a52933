#include "world.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <unisono/secret.hpp>

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

void World::expect() {
  const std::lock_guard lock(mutex_);
  expected_++;
}

void World::finished() noexcept {
  const std::lock_guard lock(mutex_);
  expected_--;
  ended_.notify_all();
}

void World::leave(Duration patience) {
  std::unique_lock lock(mutex_);
  ended_.wait_for(lock, patience, [&] { return expected_ == 0; });
  left_.store(true, std::memory_order_release);
}

std::shared_ptr<World> Worlds::found(TorchStore& store, const Place& place) {
  auto world = make_world(store, place);
  const std::lock_guard lock(mutex_);
  std::erase_if(worlds_, [](const auto& w) { return w.expired(); });
  worlds_.push_back(world);
  current_ = world;
  return world;
}

std::shared_ptr<World> Worlds::share(TorchStore& store, const Place& place) {
  {
    const std::lock_guard lock(mutex_);
    if (auto world = current_.lock(); world && world->made_here()) return world;
  }
  auto world = make_world(store, place);
  const std::lock_guard lock(mutex_);
  worlds_.push_back(world);
  return world;
}

void Worlds::retire(const std::shared_ptr<World>& world) {
  const std::lock_guard lock(mutex_);
  if (current_.lock() == world) current_.reset();
}

void Worlds::enlist(const std::shared_ptr<Group>& group) {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& g) { return g.expired(); });
  groups_.push_back(group);
}

void Worlds::leave(const std::optional<std::string>& reason) noexcept {
  std::vector<std::weak_ptr<Group>> groups;
  std::vector<std::weak_ptr<World>> worlds;
  {
    const std::lock_guard lock(mutex_);
    groups.swap(groups_);
    worlds.swap(worlds_);
  }
  for (const auto& weak : worlds)
    if (const auto world = weak.lock(); world && world->made_here())
      world->leave(reason ? Duration{} : std::chrono::seconds(5));
  for (const auto& weak : groups) try {
      const auto group = weak.lock();
      if (!group || !*group || !group->made_here()) continue;
      if (reason) group->abort(*reason);
      *group = Group();       // the last handle: leaves, with patience for what is in flight
    } catch (const Error&) {  // destroyed or failed before: there is nobody to tell
    }
}

}  // namespace unisono::torch_backend
