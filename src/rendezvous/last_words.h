#pragma once
/// What a process leaves in a store for the others, to be read when it has ended unexpectedly.

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "rendezvous/host_identity.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// The last words of those who meet under one prefix of a store. Our own server publishes them when
/// the connection of their process ends (rendezvous/when_gone.h). Of other stores (a file, torch's)
/// nobody serves that: there each rank looks whether the others of its host still live.
/// Thread-safety: one thread.
class LastWords {
 public:
  /// `prefix`: of the keys that it may use. The store must outlive it.
  LastWords(Store& store, std::string prefix) : store_(store), prefix_(std::move(prefix)) {}
  /// Takes the words back, where the ranks look after each other. Never throws.
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  /// From now on: `key` is set to `value`, if nobody has set it before, when this process ends.
  /// Throws as Store::set does.
  void leave(std::string_view key, std::span<const std::byte> value);
  /// Publish those of processes of this host that have ended; nothing where the server does it.
  /// Throws as Store::set does.
  void publish_due();
  /// The words of a process of this host that has ended, as far as publish_due() has read them: for
  /// when the store is lost. Asks /proc alone.
  std::optional<Bytes> of_one_who_ended() const;

  /// One process's, as they stand in the store.
  struct Entry {
    HostIdentity owner;
    std::uint64_t start_time = 0;  ///< of its process, so that another one with its pid is not taken for it
    std::string key;
    Bytes value;
  };
  static Bytes encode(const Entry& entry);
  static Result<Entry> decode(std::span<const std::byte> bytes);

 private:
  std::string place(std::int64_t number) const;
  void read_new();

  Store& store_;
  const std::string prefix_;
  std::optional<HostIdentity> here_;  // none: the server does it all
  std::string own_place_;
  std::int64_t known_ = 0;  // how many there are of this host
  std::set<std::int64_t> unread_;
  std::vector<Entry> others_;
};

}  // namespace unisono::rendezvous
