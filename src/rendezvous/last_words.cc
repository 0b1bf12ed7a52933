#include "rendezvous/last_words.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <sstream>

#include "rendezvous/crypto.h"
#include "rendezvous/key_values.h"
#include "rendezvous/process_stat.h"
#include "rendezvous/set_first.h"
#include "rendezvous/when_gone.h"

namespace unisono::rendezvous {
namespace {

bool has_ended(const LastWords::Entry& entry) { return process_has_ended(entry.owner.pid, entry.start_time); }

/// Of those who can see each other's processes.
std::string scope_of(const HostIdentity& here) {
  return short_hash(fmt::format("{} {} {} {}", here.boot_id, here.uid, here.pid_namespace, here.user_namespace));
}

}  // namespace

/// "IDENTITY START KEY-LENGTH KEYVALUE": the first two have no blanks.
Bytes LastWords::encode(const Entry& e) {
  Bytes out = to_bytes(fmt::format("{} {} {} {}", to_text(e.owner), e.start_time, e.key.size(), e.key));
  out.insert(out.end(), e.value.begin(), e.value.end());
  return out;
}

Result<LastWords::Entry> LastWords::decode(std::span<const std::byte> bytes) {
  const Status unreadable = Status::invalid("last words that cannot be read");
  std::istringstream in(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::string owner;
  Entry e;
  std::size_t length = 0;
  in >> owner >> e.start_time >> length;
  if (!in || in.get() != ' ' || length > bytes.size()) return unreadable;
  auto identity = parse_host_identity(owner);
  if (!identity) return identity.status();
  e.owner = std::move(*identity);
  const auto rest = bytes.subspan(std::min(bytes.size(), static_cast<std::size_t>(in.tellg())));
  if (length > rest.size()) return unreadable;
  e.key.assign(reinterpret_cast<const char*>(rest.data()), length);
  e.value.assign(rest.begin() + static_cast<std::ptrdiff_t>(length), rest.end());
  return e;
}

LastWords::~LastWords() {
  if (own_place_.empty()) return;
  try {
    (void)store_.erase(own_place_);
  } catch (...) {
    // The store is lost, or erases nothing. Whoever reads it finds this process alive, or no longer
    // waits.
  }
}

std::string LastWords::place(std::int64_t number) const {
  return fmt::format("{}/last words/{}/{}", prefix_, scope_of(*here_), number);
}

void LastWords::leave(std::string_view key, std::span<const std::byte> value) {
  if (set_when_gone(store_, key, value)) return;
  const auto here = this_host();
  const auto process = process_stat(::getpid());
  // Nobody could look after us.
  if (!here || here->boot_id.empty() || here->pid_namespace == 0 || !process) return;
  here_ = *here;
  const std::string mine = place(store_.add(place(0), 1));
  store_.set(mine, encode({*here_, process->start_time, std::string(key), {value.begin(), value.end()}}));
  own_place_ = mine;
}

void LastWords::read_new() {
  const std::int64_t all = store_.add(place(0), 0);
  while (known_ < all) unread_.insert(++known_);
  std::erase_if(unread_, [&](std::int64_t number) {
    const std::string at = place(number);
    if (at == own_place_) return true;
    if (!store_.check(std::span(&at, 1))) return false;  // not set yet, or taken back
    auto entry = decode(store_.get(at, std::chrono::seconds(1)));
    if (entry && same_host(entry->owner, *here_)) others_.push_back(std::move(*entry));
    return true;
  });
}

void LastWords::publish_due() {
  if (!here_) return;
  read_new();
  std::erase_if(others_, [&](const Entry& entry) {
    if (!has_ended(entry)) return false;
    (void)set_first(store_, entry.key, entry.value);
    return true;
  });
}

std::optional<Bytes> LastWords::of_one_who_ended() const {
  const auto found = std::find_if(others_.begin(), others_.end(), has_ended);
  return found == others_.end() ? std::nullopt : std::optional(found->value);
}

}  // namespace unisono::rendezvous
