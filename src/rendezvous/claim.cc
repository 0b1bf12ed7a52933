#include "rendezvous/claim.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "base/handshake.h"
#include "rendezvous/answer_by.h"
#include "rendezvous/crypto.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/forwarding_store.h"

namespace unisono::rendezvous {
namespace {

/// The store, and a descriptor whose name shows in /proc/PID/fd that this process still has its
/// rank. The kernel closes it when the process ends, however that is.
class ClaimedStore final : public ForwardingStore {
 public:
  ClaimedStore(std::shared_ptr<Store> store, Fd mark) : ForwardingStore(std::move(store)), mark_(std::move(mark)) {}

  std::optional<HostIdentity> rank_0_serves;

 private:
  Fd mark_;
};

struct Claim {
  HostIdentity owner;
  std::string mark;  ///< the name of its descriptor
};

std::string to_text(const Claim& c) { return fmt::format("{} {}", to_text(c.owner), c.mark); }

Result<Claim> parse_claim(std::string_view text) {
  const auto blank = text.find(' ');
  auto owner = parse_host_identity(text.substr(0, blank));
  if (!owner) return owner.status();
  return Claim{*owner, blank == std::string_view::npos ? "" : std::string(text.substr(blank + 1))};
}

struct CloseDirectory {
  void operator()(DIR* directory) const noexcept { (void)::closedir(directory); }
};

std::string prefix_of(const std::string& job, int turn) {
  return fmt::format("claim/{}{}", short_hash(job), turn == 1 ? "" : fmt::format("/{}", turn));
}

/// Whether another process still has its rank. One that cannot be looked at (another host, another
/// user's) has.
bool is_held(const Claim& claim, const HostIdentity& here) {
  if (!same_host(claim.owner, here)) return true;
  if (claim.owner.pid == here.pid) return false;
  const std::string folder = fmt::format("/proc/{}/fd", claim.owner.pid);
  DIR* const open = ::opendir(folder.c_str());
  if (open == nullptr) return errno != ENOENT;
  const std::unique_ptr<DIR, CloseDirectory> entries(open);
  while (const dirent* entry = ::readdir(open)) {
    std::array<char, 256> target{};
    const ssize_t n = ::readlinkat(::dirfd(open), entry->d_name, target.data(), target.size());
    if (n > 0 &&
        std::string_view(target.data(), static_cast<std::size_t>(n)).find(claim.mark) != std::string_view::npos)
      return true;
  }
  return false;
}

Status taken(const Claim& by, const Config& config, const HostIdentity& here, const Store& store) {
  const HostIdentity& owner = by.owner;
  const std::string where =
      owner.boot_id == here.boot_id && owner.pid_namespace != here.pid_namespace
          ? fmt::format(" in pid namespace {} (here: {})", owner.pid_namespace, here.pid_namespace)
          : "";
  return Status::invalid(
      fmt::format("rank {} of this job was already taken by pid {} on host {}{}: two processes have the same rank, or "
                  "a former job with the same name used {} (set UNISONO_JOB to something new)",
                  config.rank, owner.pid, owner.host, where, store.describe()));
}

/// Whether all ranks are in one pid namespace, by what was said of the job. `unisono run` makes a
/// place that no other job has, so it may start its ranks in namespaces of their own.
bool in_one_namespace(const Config& c) {
  if (c.init_method.starts_with("unix:")) return c.launcher != "unisono";
  if (c.local_size == c.size) return true;
  if (!c.init_method.starts_with("tcp://")) return false;
  const auto at = parse_endpoint(std::string_view(c.init_method).substr(6));
  return at && is_loopback(at->host);
}

Bytes first_value(Store& store, const std::string& key, const std::string& mine) {
  return store.compare_set(key, {}, std::as_bytes(std::span(mine)));
}

std::string text_of_bytes(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// The first process that comes says in which pid namespace the job is. It counts as long as it has
/// its rank.
Status check_namespace(Store& store, const std::string& prefix, const Config& config, const HostIdentity& here) {
  if (!in_one_namespace(config) || here.pid_namespace == 0) return {};
  const auto first = parse_host_identity(text_of_bytes(first_value(store, prefix + "/namespace", to_text(here))));
  if (!first) return first.status();
  if (first->boot_id == here.boot_id && first->pid_namespace == here.pid_namespace) return {};
  return Status::invalid(
      fmt::format("rank {} (pid {} on host {}, pid namespace {}) met pid {} on host {} in pid namespace {}, and all "
                  "ranks of this job "
                  "are said to be in one: another job met at the same place ({}). Give each job a place of its own "
                  "(UNISONO_INIT_METHOD, MASTER_PORT)",
                  config.rank, here.pid, here.host, here.pid_namespace, first->pid, first->host, first->pid_namespace,
                  store.describe()));
}

Status wait_for_rank_0(Store& store, const std::string& prefix, int turn, const Config& config) {
  try {
    (void)store.get(prefix + "/0", config.init_timeout);
    return {};
  } catch (const Timeout&) {
    return Status::timeout(
        fmt::format(
            "rank {} called init for the {}. time, and rank 0 did not within {:.1f} s: every rank has to call it as "
            "often",
            config.rank, turn, std::chrono::duration<double>(config.init_timeout).count()),
        {0});
  }
}

Result<Fd> make_mark(const std::string& name) {
  Fd fd = Fd::of_process_alone(::memfd_create(name.c_str(), MFD_CLOEXEC));
  if (!fd) return Status::system("cannot make the descriptor that marks a rank as taken (ulimit -n?)", errno);
  return fd;
}

Result<std::shared_ptr<Store>> claim(std::shared_ptr<Store> store, const Config& config, const HostIdentity& here) {
  const auto asked = in_time(store, saturating_add(std::chrono::steady_clock::now(), config.init_timeout));
  const Claim mine{here, fmt::format("unisono-rank-{}-{}", config.rank, to_string(random_peer_id()))};
  auto mark = make_mark(mine.mark);
  if (!mark) return mark.status();
  const bool again = !config.init_method.starts_with("file://");
  for (int turn = 1;; turn++) {
    const std::string prefix = prefix_of(config.job, turn);
    UNISONO_TRY(check_namespace(*asked, prefix, config, here));
    const std::string found =
        text_of_bytes(first_value(*asked, fmt::format("{}/{}", prefix, config.rank), to_text(mine)));
    if (found == to_text(mine)) {
      // A store that rank 0 serves may be about to go with its former world: wait until rank 0 has
      // come again, too.
      if (turn > 1) UNISONO_TRY(wait_for_rank_0(*asked, prefix, turn, config));
      if (turn > 1) store = make_prefix_store(fmt::format("turn {}", turn), std::move(store));
      return std::shared_ptr<Store>(std::make_shared<ClaimedStore>(std::move(store), std::move(*mark)));
    }
    const auto other = parse_claim(found);
    if (!other)
      return other.status().with_context(
          fmt::format("rank {} of this job was already taken, by somebody unreadable", config.rank));
    if (!again || is_held(*other, here)) return taken(*other, config, here, *store);
  }
}

}  // namespace

Result<std::shared_ptr<Store>> claim_rank(std::shared_ptr<Store> store, const Config& config,
                                          const HostIdentity& identity) {
  try {
    return claim(std::move(store), config, identity);
  } catch (...) {
    return status_from_current_exception();
  }
}

std::optional<HostIdentity> rank_0_serving(const Store& store) {
  const auto* claimed = dynamic_cast<const ClaimedStore*>(&store);
  return claimed == nullptr ? std::nullopt : claimed->rank_0_serves;
}

Result<OpenedStore> meet(Config config, const Logger& log) {
  const auto here = this_host();
  if (!here) return here.status();
  const TimePoint deadline = saturating_add(std::chrono::steady_clock::now(), config.init_timeout);
  for (;;) {
    auto place = open_meeting_place(config, log);
    if (!place) return place.status();
    auto claimed = claim_rank(std::move(place->store), config, *here);
    const Duration left = deadline - std::chrono::steady_clock::now();
    if (claimed) {
      place->store = std::move(*claimed);
      if (auto* store = dynamic_cast<ClaimedStore*>(place->store.get())) store->rank_0_serves = place->rank_0_serves;
      return place;
    }
    if (claimed.status().code() != Code::system || left <= Duration{0}) return claimed.status();
    log.info(fmt::format("{}; looking for the next store", claimed.status().message()));
    config.init_timeout = left;
  }
}

}  // namespace unisono::rendezvous
