#include "rendezvous/open_store.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/clock.h"
#include "base/process_mark.h"
#include "rendezvous/attendance.h"
#include "rendezvous/crypto.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/forwarding_store.h"
#include "rendezvous/host_identity.h"
#include "rendezvous/job_handshake.h"
#include "rendezvous/served_by.h"
#include "rendezvous/store_client.h"
#include "rendezvous/store_server.h"

namespace unisono::rendezvous {
namespace {

constexpr Duration kLinger = std::chrono::seconds(3);
constexpr Duration kJoinRunning = std::chrono::seconds(5);  // a server that has the address already must answer so soon
constexpr Duration kJoinAttempt = std::chrono::milliseconds(500);

/// A client and the server behind it: what rank 0 has.
class ServedStore final : public ForwardingStore {
 public:
  ServedStore(std::unique_ptr<StoreServer> server, std::shared_ptr<Store> client)
      : ForwardingStore(std::move(client)), server_(std::move(server)) {}
  ~ServedStore() override {
    if (!process_.here()) return;  // a forked child: the parent serves on
    leave();
    // Others may still be reading what was decided last. They leave when they have it; who comes now wants the next job's.
    server_->stop_listening();
    server_->wait_until_idle(kLinger);
  }
  std::string describe() const override { return ForwardingStore::describe() + " (served by this process)"; }

 private:
  const ProcessMark process_;
  std::unique_ptr<StoreServer> server_;
};

/// Everything that the ways to open a store need.
struct Opening {
  const Config& config;
  Logger log;
  std::shared_ptr<HandshakeFactory> handshake;
};

Result<std::shared_ptr<Store>> join(const Opening& o, const Endpoint& at, Duration patience) {
  return connect_store(at, {.handshake = o.handshake, .connect_timeout = patience, .log = o.log});
}

/// Rank 0: serve, unless the job's store is there already (the launcher's; or this rank was started twice, which claim_rank
/// will tell better than "address in use").
Result<std::shared_ptr<Store>> serve_or_join(const Opening& o, const Endpoint& at) {
  StoreServerOptions options;
  options.handshake = o.handshake;
  options.any_address_if_not_ours = !o.config.secret.empty();
  options.log = o.log;
  const TimePoint patience =
      saturating_add(std::chrono::steady_clock::now(), std::min(kJoinRunning, o.config.init_timeout));
  auto server = StoreServer::start(at, options);
  while (!server) {
    const Status failed = server.status();
    if (failed.error_number() != EADDRINUSE) return failed;
    // The server there may be a former job's that is about to go: look at the address again, too.
    auto store = join(o, at, kJoinAttempt);
    if (store) return store;
    if (store.status().code() == Code::authentication || std::chrono::steady_clock::now() >= patience)
      return Status::system(
          fmt::format("{}; it is not this job's store: {}", failed.message(), store.status().message()), 0);
    server = StoreServer::start(at, options);
  }
  say_who_serves(**server, kRank0);
  auto client = join(o, (*server)->endpoint(), o.config.init_timeout);
  if (!client) return client.status().with_context("rank 0 serves the store and cannot reach it");
  return std::shared_ptr<Store>(std::make_shared<ServedStore>(std::move(*server), std::move(*client)));
}

Result<OpenedStore> opened(Result<std::shared_ptr<Store>> store, bool of_one_user) {
  if (!store) return store.status();
  const auto rank_0 = served_by_rank_0(**store);
  return OpenedStore{std::move(*store), of_one_user, rank_0};
}

Result<OpenedStore> meet_at(const Opening& o, const Endpoint& at) {
  o.log.info(fmt::format("{} the store at {}", o.config.rank == 0 ? "serving or joining" : "joining", to_string(at)));
  return opened(o.config.rank == 0 ? serve_or_join(o, at) : join(o, at, o.config.init_timeout), at.is_unix());
}

/// The abstract socket that stands for a TCP address when nobody from outside needs it. The user and the pid namespace are
/// in the name so that users and containers that share a network do not collide.
Endpoint local_stand_in(const Endpoint& tcp, const Config& config) {
  const std::string host = is_loopback(tcp.host) ? "loopback" : tcp.host;
  Endpoint unix_socket;
  unix_socket.name =
      "unisono-" + short_hash(fmt::format("{} {} {} {} {}", host, tcp.port, ::geteuid(), launch_scope(), config.job));
  return unix_socket;
}

Result<OpenedStore> open_tcp(const Opening& o, std::string_view address) {
  auto at = parse_endpoint(address);
  if (!at) return at.status().with_context("init_method tcp://");
  if (at->is_unix()) return Status::invalid(fmt::format("init_method tcp://{}: expected tcp://HOST:PORT", address));
  if (at->port == 0) return Status::invalid(fmt::format("init_method tcp://{}: port 0 is no place to meet", address));
  const bool local = o.config.local_size == o.config.size || (is_loopback(at->host) && o.config.secret.empty());
  if (o.config.size == 1 || local) return meet_at(o, local_stand_in(*at, o.config));
  if (o.config.secret.empty()) {
    if (!o.config.allow_insecure)
      return Status::invalid(
          fmt::format("the ranks meet at {} over the network without a job secret: anybody who reaches that port could "
                      "join. Put a secret "
                      "into a file on every host (openssl rand -hex 32 > FILE; chmod 600 FILE) and set "
                      "UNISONO_SECRET_FILE=FILE, or set "
                      "UNISONO_ALLOW_INSECURE=1 on a network where everybody is trusted",
                      to_string(*at)));
    o.log.warn(
        fmt::format("UNISONO_ALLOW_INSECURE=1: the store at {} lets in whoever knows the job's name", to_string(*at)));
  }
  return meet_at(o, *at);
}

Result<OpenedStore> open_file(const Opening& o, const std::string& path) {
  if (path.empty()) return Status::invalid("init_method file://: a path is missing: file:///shared/job42");
  try {
    return OpenedStore{make_prefix_store("job:" + o.config.job, make_file_store(path))};
  } catch (...) {
    return status_from_current_exception();
  }
}

}  // namespace

Result<std::shared_ptr<Store>> open_store(const Config& config, Logger log, const Environment& environment) {
  auto place = open_meeting_place(config, std::move(log), environment);
  if (!place) return place.status();
  return std::move(place->store);
}

Result<OpenedStore> open_meeting_place(const Config& config, Logger log, const Environment& environment) {
  UNISONO_TRY(check_rank(config.rank, config.size));
  const auto secret = Secret::parse(config.secret);
  if (!secret) return secret.status();
  const Opening o{config, std::move(log), make_handshake_factory(PeerId{}, config.job, *secret, Purpose::store)};
  std::string method = config.init_method;
  if (method.empty() && config.size == 1) return OpenedStore{make_memory_store()};
  if (method.empty())
    return Status::invalid(
        fmt::format("rank {} of {} does not know where the ranks meet: start them with `unisono run` or torchrun, or "
                    "set init_method (UNISONO_INIT_METHOD) to tcp://HOST:PORT or file://PATH",
                    config.rank, config.size));
  if (method == "env://") {
    auto address = master_address(environment);
    if (!address) return address.status().with_context("init_method env://");
    method = std::move(*address);
  }
  if (method.starts_with("tcp://")) return open_tcp(o, method.substr(6));
  if (method.starts_with("file://")) return open_file(o, method.substr(7));
  if (method.starts_with("unix:")) {
    const auto at = parse_endpoint(method);
    if (!at) return at.status().with_context("init_method");
    return meet_at(o, *at);
  }
  return Status::invalid(
      fmt::format("init_method \"{}\": expected tcp://HOST:PORT, file://PATH, env:// or unix:@NAME", method));
}

Result<std::string> secret_of_one_user(Store& store) {
  auto made = Secret::generate();
  if (!made) return made.status();
  try {
    const std::string text = made->reveal();
    const Bytes found = store.compare_set("secret", {}, std::as_bytes(std::span(text)));
    return std::string(reinterpret_cast<const char*>(found.data()), found.size());
  } catch (...) {
    return status_from_current_exception();
  }
}

}  // namespace unisono::rendezvous
