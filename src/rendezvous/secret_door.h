#pragma once
/// Handing a secret to processes of this user on this host, and to nobody else.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "rendezvous/host_identity.h"
#include "rendezvous/secret.h"
#include "rendezvous/store_server.h"

namespace unisono::rendezvous {

/// An abstract unix socket behind which a secret is handed out. Both sides ask the kernel whose
/// process the other one is (SO_PEERCRED), and let in this user and root. Its name is no secret.
/// Thread-safety: any thread.
class SecretDoor {
 public:
  static Result<SecretDoor> open(const Secret& secret, const Logger& log);
  const std::string& name() const noexcept { return name_; }
  /// Wait until all of `ranks` have fetched the secret; at the timeout those that have not (it may
  /// be called again then), else nobody.
  Result<std::vector<int>> wait_for(std::span<const int> ranks, Duration timeout);

 private:
  SecretDoor() = default;
  std::string name_;
  std::unique_ptr<StoreServer> server_;
  std::shared_ptr<Store> inside_;
};

/// The secret behind the door `name`, for `rank`. Authentication when the door is another user's.
Result<Secret> fetch_secret(const std::string& name, int rank, Duration timeout, const Logger& log);

/// Whether a process `a` comes to a door of `b`: one kernel and network namespace, and one user to
/// both.
bool reaches_door(const HostIdentity& a, const HostIdentity& b) noexcept;

}  // namespace unisono::rendezvous
