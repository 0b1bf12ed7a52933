#pragma once
/// Why one of the ranks that make a group cannot come, as the others read it in the store.

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "rendezvous/last_words.h"
#include "unisono/store.hpp"

namespace unisono::group {

/// What one rank says and reads. The first report counts: all others raise the same error. The
/// store must outlive it. Thread-safety: one thread.
class JoinReport {
 public:
  /// `rank` of `size` in `group`; `host`, `pid`: of this process.
  JoinReport(Store& store, std::string group, int rank, int size, std::string host, std::int64_t pid)
      : store_(store),
        group_(std::move(group)),
        rank_(rank),
        size_(size),
        host_(std::move(host)),
        pid_(pid),
        last_words_(store, group_) {}

  /// From now on the others are told if this process ends: by the store's server, or by ranks of
  /// this host.
  void leave_last_words();
  /// This rank cannot come. Where `why` is about others (a time-out, a rank that died), it is
  /// passed on as it is; otherwise this rank has failed, for that reason. A store that is lost
  /// stays silent.
  void publish(const Status& why) noexcept;
  /// The first report, or success. Asks the store, without waiting. Throws as Store::check does;
  /// but where the store is lost and a process of this host that met here has ended, that is the
  /// answer.
  Status look();
  /// The same, and also what `unisono run` says of ranks whose processes end before all have
  /// joined. Not for who has met all ranks: they may leave as soon as they are done.
  Status look_for_all();
  /// InvalidArgument where another rank, the first that asks, has another size. Throws as
  /// Store::set does.
  Status agree_on_size();
  /// Whether all ranks have begun to exchange addresses, but for the one that the report names. For
  /// rank 0.
  bool all_came();

 private:
  std::optional<Bytes> read(const std::string& key);
  Status who_ended() const;

  Store& store_;
  std::string group_;
  int rank_, size_;
  std::string host_;
  std::int64_t pid_;
  rendezvous::LastWords last_words_;
};

}  // namespace unisono::group
