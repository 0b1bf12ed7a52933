#include "world.h"

#include <c10/util/Logging.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>

namespace unisono::torch_backend {
namespace {

constexpr std::string_view kSecretKey = "secret";

std::string random_hex() {
  std::array<unsigned char, 32> bytes{};
  if (::getentropy(bytes.data(), bytes.size()) != 0)
    throw SystemError("the kernel gives no random bytes for the job's secret", errno);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char b : bytes) {
    text += digits[b >> 4];
    text += digits[b & 15];
  }
  return text;
}

/// A secret that lives as long as the job, from rank 0 to the others.
std::string agree_on_secret(TorchStore& store, int rank, Duration timeout) {
  if (rank == 0) {
    const std::string secret = random_hex();
    store.set(kSecretKey, std::as_bytes(std::span(secret.data(), secret.size())));
    return secret;
  }
  const Bytes secret = store.get(kSecretKey, timeout);
  return {reinterpret_cast<const char*>(secret.data()), secret.size()};
}

std::shared_ptr<World> make_world(TorchStore& store, int rank, int size, Duration timeout) {
  Config config = Config::settings_from_env();
  config.rank = rank;
  config.size = size;
  config.timeout = timeout;
  config.share_memory = false;  // of tensors we know more, and see to it ourselves (adoption.h)
  config.init_timeout = std::min(config.init_timeout, timeout);
  if (config.secret.empty() && size > 1) {
    config.secret = agree_on_secret(store, rank, config.init_timeout);
    LOG(INFO) << "unisono: no secret is configured; rank 0 made one and handed it out through torch's store";
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

std::shared_ptr<World> Worlds::found(TorchStore& store, int rank, int size, Duration timeout) {
  auto world = make_world(store, rank, size, timeout);
  const std::lock_guard lock(mutex_);
  std::erase_if(worlds_, [](const auto& w) { return w.expired(); });
  worlds_.push_back(world);
  current_ = world;
  return world;
}

std::shared_ptr<World> Worlds::share(TorchStore& store, int rank, int size, Duration timeout) {
  {
    const std::lock_guard lock(mutex_);
    if (auto world = current_.lock(); world && world->made_here()) return world;
  }
  auto world = make_world(store, rank, size, timeout);
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
