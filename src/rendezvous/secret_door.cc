#include "rendezvous/secret_door.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/job_handshake.h"
#include "rendezvous/store_client.h"

namespace unisono::rendezvous {
namespace {

constexpr Duration kLastAnswers = std::chrono::seconds(3);  // for answers that are on their way
constexpr const char* kSecretKey = "secret";

std::string fetched_key(int rank) { return fmt::format("fetched/{}", rank); }

/// Who may come in is the kernel's word; the handshake only tells this door from others.
std::shared_ptr<HandshakeFactory> handshake_of(const std::string& name) {
  return make_handshake_factory(PeerId{}, name, Secret{}, Purpose::store);
}

Result<std::shared_ptr<Store>> enter(const std::string& name, Duration timeout, const Logger& log) {
  Endpoint at;
  at.name = name;
  return connect_store(at, {.handshake = handshake_of(name), .connect_timeout = timeout, .log = log});
}

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

Result<SecretDoor> SecretDoor::open(const Secret& secret, const Logger& log) {
  SecretDoor door;
  door.name_ = "unisono-door-" + to_string(random_peer_id());
  Endpoint at;
  at.name = door.name_;
  StoreServerOptions options;
  options.handshake = handshake_of(door.name_);
  options.log = log;
  auto server = StoreServer::start(at, std::move(options));
  if (!server) return server.status();
  door.server_ = std::move(*server);
  auto inside = enter(door.name_, std::chrono::seconds(30), log);
  if (!inside) return inside.status();
  door.inside_ = std::move(*inside);
  try {
    door.inside_->set(kSecretKey, bytes_of(secret.reveal()));
  } catch (...) {
    return status_from_current_exception();
  }
  return door;
}

Result<std::vector<int>> SecretDoor::wait_for(std::span<const int> ranks, Duration timeout) {
  std::vector<std::string> keys;
  for (const int r : ranks) keys.push_back(fetched_key(r));
  std::vector<int> missing;
  try {
    inside_->wait(keys, timeout);
  } catch (const Timeout&) {
    for (const int r : ranks)
      if (const std::string key = fetched_key(r); !inside_->check(std::span(&key, 1))) missing.push_back(r);
  } catch (...) {
    return status_from_current_exception();
  }
  if (!missing.empty()) return missing;
  inside_.reset();
  (void)server_->wait_until_idle(kLastAnswers);
  return missing;
}

Result<Secret> fetch_secret(const std::string& name, int rank, Duration timeout, const Logger& log) {
  const TimePoint deadline = saturating_add(std::chrono::steady_clock::now(), timeout);
  auto inside = enter(name, timeout, log);
  if (!inside) return inside.status();
  try {
    const Duration left = std::max<Duration>(deadline - std::chrono::steady_clock::now(), std::chrono::milliseconds(1));
    const Bytes text = (*inside)->get(kSecretKey, left);
    auto secret = Secret::parse({reinterpret_cast<const char*>(text.data()), text.size()});
    if (secret) (*inside)->set(fetched_key(rank), bytes_of("1"));
    return secret;
  } catch (...) {
    return status_from_current_exception();
  }
}

bool reaches_door(const HostIdentity& a, const HostIdentity& b) noexcept {
  return !a.boot_id.empty() && a.boot_id == b.boot_id && a.uid == b.uid && a.user_namespace != 0 &&
         a.user_namespace == b.user_namespace && a.net_namespace != 0 && a.net_namespace == b.net_namespace;
}

}  // namespace unisono::rendezvous
