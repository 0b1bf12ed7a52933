/// agree_on_secret(): each rank says in the open store where it is; rank 0 says there how the
/// secret is to be had.
///
///   secret/here/R   "joins STRICT IDENTITY", or "fails REASON"
///   secret/how      "door NAME", "store SECRET", "refused REASON", or "missing R R ..."
///   secret/ended    which rank has ended meanwhile (rendezvous/ended_ranks.h)

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "rendezvous/attendance.h"
#include "rendezvous/ended_ranks.h"
#include "rendezvous/host_identity.h"
#include "rendezvous/last_words.h"
#include "rendezvous/secret_door.h"
#include "rendezvous/watchful_get.h"
#include "unisono/error.hpp"
#include "unisono/secret.hpp"

namespace unisono {
namespace {

using rendezvous::HostIdentity;
using rendezvous::Secret;

constexpr const char* kHowKey = "secret/how";
constexpr const char* kEndedKey = "secret/ended";
constexpr Duration kBetweenLooksAtDoor = std::chrono::milliseconds(400);
constexpr Duration kLater = std::chrono::seconds(2);  // others wait longer than rank 0, whose word names who is missing

std::string here_key(int rank) { return fmt::format("secret/here/{}", rank); }
std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

/// "door NAME" -> "door", "NAME".
std::pair<std::string, std::string> first_word(const std::string& text) {
  const auto blank = text.find(' ');
  if (blank == std::string::npos) return {text, ""};
  return {text.substr(0, blank), text.substr(blank + 1)};
}

/// One rank's call.
class Agreement {
 public:
  Agreement(Store& store, const SecretTerms& terms)
      : store_(store),
        terms_(terms),
        log_(Logger().with_prefix(fmt::format("rank {}", terms.rank))),
        deadline_(saturating_add(std::chrono::steady_clock::now(), terms.timeout)),
        last_words_(store, "secret") {}

  std::string run() {
    const HostIdentity mine = value_or_throw(rendezvous::this_host());
    last_words_.leave(kEndedKey, rendezvous::encode(rendezvous::EndedRank{terms_.rank, terms_.size, mine.pid, mine.host,
                                                                          "killed, or its program is over"}));
    if (terms_.rank == 0) return lead(mine);
    store_.set(here_key(terms_.rank),
               bytes_of(fmt::format("joins {} {}", terms_.strict ? 1 : 0, rendezvous::to_text(mine))));
    return follow();
  }

 private:
  Duration left() const {
    return std::max<Duration>(deadline_ - std::chrono::steady_clock::now(), std::chrono::milliseconds(1));
  }
  void say(std::string_view how) { store_.set(kHowKey, bytes_of(how)); }

  std::vector<int> not_here(int from) {
    std::vector<int> missing;
    for (int r = from; r < terms_.size; r++)
      if (const std::string key = here_key(r); !store_.check(std::span(&key, 1))) missing.push_back(r);
    return missing;
  }
  Status missing_ranks(const std::vector<int>& missing) const {
    return rendezvous::missing_ranks(store_.describe(), terms_.size, missing, terms_.timeout);
  }

  Duration later() const {
    return std::max<Duration>(saturating_add(deadline_, kLater) - std::chrono::steady_clock::now(),
                              std::chrono::milliseconds(1));
  }

  /// Throws RankFailure when a rank has ended meanwhile.
  void check_all_live() {
    std::optional<Bytes> ended;
    try {
      last_words_.publish_due();
      if (const std::string key = kEndedKey; store_.check(std::span(&key, 1)))
        ended = store_.get(key, std::chrono::seconds(1));
    } catch (const SystemError&) {  // the store is lost, with one of the ranks perhaps
      if (!(ended = last_words_.of_one_who_ended())) throw;
    }
    if (ended) throw_status(rendezvous::failure_of_ended(*ended, terms_.size));
  }

  /// As Store::get, as long as all live.
  Bytes get(const std::string& key, Duration patience) {
    try {
      return rendezvous::watchful_get(store_, key, patience, terms_.size, [this] { check_all_live(); });
    } catch (const SystemError&) {
      check_all_live();
      throw;
    }
  }

  // --- rank 0 ---
  std::string lead(const HostIdentity& mine) {
    Status apart;  // why not all come to this rank's door
    for (int r = 1; r < terms_.size; r++) {
      const std::string text = text_of(arrival_of(r));
      const auto [verb, rest] = first_word(text);
      if (verb == "fails") refuse(fmt::format("rank {} cannot join: {}", r, rest));
      const auto [strict, identity] = first_word(rest);
      terms_.strict |= strict == "1";
      const auto theirs = rendezvous::parse_host_identity(identity);
      if (!theirs) refuse(fmt::format("rank {} cannot be understood: {}", r, theirs.status().message()));
      if (!rendezvous::reaches_door(*theirs, mine) && apart.ok())
        apart = Status::invalid(fmt::format(
            "rank {} (user {} on host {}) and rank 0 (user {} on host {}) are not of one user and network namespace", r,
            theirs->uid, theirs->host, mine.uid, mine.host));
    }
    const Secret secret = value_or_throw(Secret::generate());
    if (!apart.ok()) return through_store(secret, apart);
    return through_door(secret);
  }

  Bytes arrival_of(int rank) {
    for (;;) try {
        return get(here_key(rank), left());
      } catch (const Timeout&) {
        const std::vector<int> missing = not_here(1);
        if (missing.empty()) continue;  // it came at the last moment
        say(fmt::format("missing {}", fmt::join(missing, " ")));
        throw_status(missing_ranks(missing));
      }
  }

  [[noreturn]] void refuse(const std::string& why) {
    say("refused " + why);
    throw InvalidArgument(why);
  }

  std::string through_door(const Secret& secret) {
    auto door = value_or_throw(rendezvous::SecretDoor::open(secret, log_));
    say("door " + door.name());
    std::vector<int> others;
    for (int r = 1; r < terms_.size; r++) others.push_back(r);
    for (;;) {
      const Duration rest = later();
      const auto missing = value_or_throw(door.wait_for(others, std::min(rest, kBetweenLooksAtDoor)));
      if (missing.empty()) break;
      check_all_live();
      if (rest <= kBetweenLooksAtDoor) throw_status(missing_ranks(missing));
    }
    log_.info("no secret is configured; rank 0 made one, and handed it over a unix socket to processes of this user");
    return secret.reveal();
  }

  std::string through_store(const Secret& secret, const Status& apart) {
    constexpr std::string_view kRemedy =
        "Give all ranks a secret: `openssl rand -hex 32 > FILE; chmod 600 FILE`, and UNISONO_SECRET_FILE=FILE. Or set "
        "UNISONO_ALLOW_INSECURE=1 on a network where everybody is trusted";
    if (!terms_.allow_insecure && (terms_.strict || terms_.one_host))
      refuse(fmt::format("{}{}, and no secret is configured, so anybody who reaches the {} could join. {}",
                         apart.message(), terms_.one_host ? ", though all ranks should be on one host" : "",
                         store_.describe(), kRemedy));
    if (!terms_.allow_insecure)
      log_.warn(
          fmt::format("{}, and no secret is configured: rank 0 hands one out through the {}, so anybody who "
                      "reaches that can join. {}; UNISONO_STRICT=1 makes this an error",
                      apart.message(), store_.describe(), kRemedy));
    const std::string text = secret.reveal();
    say("store " + text);
    return text;
  }

  // --- the others ---
  std::string follow() {
    const std::string how = rank_0s_word();
    const auto [verb, rest] = first_word(how);
    if (verb == "store") return rest;
    if (verb == "door") return fetch(rest);
    if (verb == "missing") throw_status(missing_ranks(numbers(rest)));
    throw InvalidArgument(rest);
  }

  std::string fetch(const std::string& door) {
    for (;;) {
      const Duration rest = later();
      const auto secret = rendezvous::fetch_secret(door, terms_.rank, std::min(rest, kBetweenLooksAtDoor), log_);
      if (secret) return secret->reveal();
      check_all_live();
      if (secret.status().code() == Code::authentication || rest <= kBetweenLooksAtDoor) throw_status(secret.status());
    }
  }

  std::string rank_0s_word() {
    try {
      return text_of(get(kHowKey, left() + kLater));
    } catch (const Timeout&) {
      std::vector<int> missing = not_here(1);
      missing.insert(missing.begin(), 0);
      throw_status(missing_ranks(missing));
    }
    return {};
  }

  static std::vector<int> numbers(std::string_view text) {
    std::vector<int> found;
    for (const char* at = text.data(); at < text.data() + text.size(); at++) {
      int n = 0;
      at = std::from_chars(at, text.data() + text.size(), n).ptr;
      found.push_back(n);
    }
    return found;
  }

  Store& store_;
  SecretTerms terms_;
  Logger log_;
  TimePoint deadline_;
  rendezvous::LastWords last_words_;
};

}  // namespace

std::string agree_on_secret(Store& store, const SecretTerms& terms) {
  throw_status(rendezvous::check_rank(terms.rank, terms.size));
  if (terms.size == 1) return value_or_throw(Secret::generate()).reveal();
  return Agreement(store, terms).run();
}

void decline_secret(Store& store, const SecretTerms& terms, std::string_view reason) noexcept {
  try {
    if (terms.rank == 0)
      store.set(kHowKey, bytes_of(fmt::format("refused rank 0 cannot join: {}", reason)));
    else
      store.set(here_key(terms.rank), bytes_of(fmt::format("fails {}", reason)));
  } catch (...) {  // the store is lost, too: the others find out by themselves
  }
}

}  // namespace unisono
