/// A store that one process serves at an address and others connect to, for programs that open one
/// themselves.

#include "base/status.h"
#include "rendezvous/claim.h"
#include "rendezvous/open_store.h"
#include "unisono/config.hpp"
#include "unisono/secret.hpp"
#include "unisono/store.hpp"

namespace unisono {

std::shared_ptr<Store> make_tcp_store(const std::string& address, bool serve, Duration timeout) {
  Config config = Config::settings_from_env();
  config.rank = serve ? 0 : 1;
  config.size = 2;  // whoever else there is
  config.init_method = "tcp://" + address;
  config.init_timeout = timeout;
  return value_or_throw(rendezvous::open_store(config, Logger()));
}

std::shared_ptr<Store> open_unguarded_store(const Config& config) {
  Config open = config;
  open.allow_insecure = true;
  // agree_on_secret() warns. Rank 0's former world may serve the same address still.
  return value_or_throw(rendezvous::meet(open, Logger(LogLevel::error, ""))).store;
}

}  // namespace unisono
