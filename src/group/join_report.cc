#include "group/join_report.h"

#include <fmt/format.h>

#include <chrono>
#include <sstream>
#include <thread>

#include "engine/abort_record.h"
#include "rendezvous/ended_ranks.h"
#include "rendezvous/set_first.h"

namespace unisono::group {
namespace {

constexpr auto kLastMoment = std::chrono::milliseconds(200);

std::string failed_key(const std::string& group) { return group + "/failed"; }
Bytes encode(const Status& status) { return engine::AbortRecord{0, {}, status}.encode(); }
Status decode(const Bytes& report) {
  const auto record = engine::AbortRecord::decode(report);
  return record ? record->status : record.status();
}

}  // namespace

void JoinReport::leave_last_words() {
  const Status gone = Status::rank_failure(
      fmt::format("rank {} of group \"{}\" (host {}, pid {}) ended before all ranks had joined: it was killed, or its "
                  "host or its network is gone. Look at what it printed",
                  rank_, group_, host_, pid_),
      rank_, host_, pid_);
  last_words_.leave(failed_key(group_), encode(gone));
}

void JoinReport::publish(const Status& why) noexcept {
  try {
    const bool about_others =
        why.code() == Code::rank_failure || why.code() == Code::timeout || why.code() == Code::mismatch;
    const Status report =
        about_others ? why
                     : Status::rank_failure(fmt::format("rank {} (host {}, pid {}) could not join group \"{}\": {}",
                                                        rank_, host_, pid_, group_, why.message()),
                                            rank_, host_, pid_);
    (void)rendezvous::set_first(store_, failed_key(group_), encode(report));
  } catch (...) {  // the store is lost, and all find that out
  }
}

std::optional<Bytes> JoinReport::read(const std::string& key) {
  if (!store_.check(std::span(&key, 1))) return std::nullopt;
  return store_.get(key, std::chrono::seconds(1));
}

/// "SIZE RANK PID HOST", of the first.
Status JoinReport::agree_on_size() {
  const std::string mine = fmt::format("{} {} {} {}", size_, rank_, pid_, host_);
  const Bytes found = rendezvous::set_first(store_, group_ + "/size", std::as_bytes(std::span(mine)));
  std::istringstream first(std::string(reinterpret_cast<const char*>(found.data()), found.size()));
  int size = 0, rank = 0;
  std::int64_t pid = 0;
  std::string host;
  first >> size >> rank >> pid >> host;
  if (!first) return Status::internal(fmt::format("{}/size in the {} cannot be read", group_, store_.describe()));
  if (size == size_) return {};
  return Status::invalid(
      fmt::format("rank {} makes group \"{}\" with {} ranks, and rank {} (host {}, pid {}) with {}: all must name the "
                  "same size",
                  rank_, group_, size_, rank, host, pid, size));
}

bool JoinReport::all_came() {
  const int failed = look().rank();
  for (int r = 1; r < size_; r++)
    if (const std::string key = fmt::format("{}/rank/{}", group_, r); r != failed && !store_.check(std::span(&key, 1)))
      return false;
  return true;
}

Status JoinReport::look() try {
  last_words_.publish_due();
  const auto report = read(failed_key(group_));
  return report ? decode(*report) : Status();
} catch (const Error&) {
  if (Status ended = who_ended(); !ended.ok()) return ended;
  throw;
}

/// The connection ends a moment before the process does.
Status JoinReport::who_ended() const {
  for (const auto until = std::chrono::steady_clock::now() + kLastMoment;;) {
    if (const auto words = last_words_.of_one_who_ended()) return decode(*words);
    if (std::chrono::steady_clock::now() > until) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Status JoinReport::look_for_all() {
  UNISONO_TRY(look());
  const auto ended = read(rendezvous::kEndedKey);
  return ended ? rendezvous::failure_of_ended(*ended, size_) : Status();
}

}  // namespace unisono::group
