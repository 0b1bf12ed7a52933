/// A store in a file that all ranks can reach.

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "base/process_mark.h"
#include "rendezvous/file_log.h"
#include "rendezvous/key_values.h"
#include "unisono/store.hpp"

namespace unisono {
namespace {

using rendezvous::FileRecord;
using rendezvous::KeyValues;
using rendezvous::StoreCode;
using rendezvous::StoreOp;
using rendezvous::StoreRequest;
using rendezvous::StoreResponse;

constexpr Duration kLockPatience = std::chrono::seconds(30);
constexpr auto kShortestPause = std::chrono::microseconds(200);
constexpr auto kLongestPause = std::chrono::milliseconds(20);

/// Keeps the table in memory and replays what others appended before each operation.
class FileStore final : public Store {
 public:
  explicit FileStore(std::string path) : log_(std::move(path)) {
    run({StoreOp::check, {"created"}, {}, {}}, Duration{0});  // so that a bad path is an error here and not later
  }

  void set(std::string_view key, std::span<const std::byte> value) override {
    run({StoreOp::set, {std::string(key)}, {value.begin(), value.end()}, {}}, Duration{0});
  }
  Bytes get(std::string_view key, Duration timeout) override {
    return *run({StoreOp::get, {std::string(key)}, {}, {}}, timeout).value;
  }
  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return run({StoreOp::add, {std::string(key)}, {}, {}, delta}, Duration{0}).number;
  }
  Bytes compare_set(std::string_view key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override {
    return *run({StoreOp::compare_set,
                 {std::string(key)},
                 {desired.begin(), desired.end()},
                 {expected.begin(), expected.end()}},
                Duration{0})
                .value;
  }
  bool check(std::span<const std::string> keys) override {
    return run({StoreOp::check, {keys.begin(), keys.end()}, {}, {}}, Duration{0}).number != 0;
  }
  void wait(std::span<const std::string> keys, Duration timeout) override {
    run({StoreOp::wait, {keys.begin(), keys.end()}, {}, {}}, timeout);
  }
  bool erase(std::string_view key) override {
    return run({StoreOp::erase, {std::string(key)}, {}, {}}, Duration{0}).number != 0;
  }
  std::string describe() const override { return "file store " + log_.path(); }

 private:
  StoreResponse run(const StoreRequest& request, Duration timeout) {
    throw_status(process_.check(describe()));
    const TimePoint deadline = saturating_add(std::chrono::steady_clock::now(), timeout);
    std::uint64_t seen = 0;
    StoreResponse response = once(request, seen);
    auto pause = std::chrono::duration_cast<Duration>(kShortestPause);
    // No notification crosses NFS: a waiting get looks at the file's size, less and less often.
    while (response.code == StoreCode::timeout) {
      const Duration left = deadline - std::chrono::steady_clock::now();
      if (left <= Duration{0}) break;
      std::this_thread::sleep_for(std::min(pause, left));
      pause = std::min<Duration>(pause * 2, kLongestPause);
      if (changed(seen)) response = once(request, seen);
    }
    throw_status(rendezvous::status_of(response, describe(), timeout));
    return response;
  }

  /// Since the table was `seen`: by somebody else in the file, or by another thread through this store.
  bool changed(std::uint64_t seen) {
    std::lock_guard lock(mutex_);
    return changes_ != seen || log_.changed();
  }

  StoreResponse once(const StoreRequest& request, std::uint64_t& seen) {
    std::lock_guard lock(mutex_);
    StoreResponse response;
    const auto replay = [this](FileRecord record, std::string_view key, std::span<const std::byte> value) {
      StoreRequest r;
      r.op = record == FileRecord::set ? StoreOp::set : StoreOp::erase;
      r.keys = {std::string(key)};
      r.value.assign(value.begin(), value.end());
      values_.apply(r);
      changes_++;
    };
    throw_status(log_.transact(replay, [&] { return change(request, response); }, kLockPatience));
    seen = changes_;
    return response;
  }

  /// Do it in the table, and append what came of it: so the log has only plain sets and erasures.
  Status change(const StoreRequest& request, StoreResponse& response) {
    if (request.op == StoreOp::compare_set) return compare_set(request, response);
    if (request.op == StoreOp::set || request.op == StoreOp::add) {
      StoreRequest write = request;
      if (request.op == StoreOp::add) {
        const auto sum = rendezvous::add_to_text(request.keys.front(), stored(request.keys.front()), request.delta);
        if (!sum) return sum.status().with_context(describe());
        response.number = *sum;
        write.value = rendezvous::to_bytes(std::to_string(*sum));
      }
      return write_through(write.keys.front(), write.value);
    }
    if (request.op == StoreOp::erase && values_.missing(request.keys).empty())
      UNISONO_TRY(log_.append(FileRecord::erase, request.keys.front(), {}));
    response = values_.apply(request);
    return {};
  }

  Status compare_set(const StoreRequest& request, StoreResponse& response) {
    const auto& key = request.keys.front();
    Bytes now = stored(key);
    if (now == request.expected) {
      UNISONO_TRY(write_through(key, request.value));
      now = request.value;
    }
    response.value = std::make_shared<const Bytes>(std::move(now));
    return {};
  }

  /// The file first: what could not be written must not be in the table either.
  Status write_through(const std::string& key, const Bytes& value) {
    UNISONO_TRY(rendezvous::check_key(key).with_context(describe()));
    UNISONO_TRY(rendezvous::check_value(value).with_context(describe()));
    UNISONO_TRY(log_.append(FileRecord::set, key, value));
    values_.apply({StoreOp::set, {key}, value, {}});
    changes_++;
    return {};
  }

  /// The value, or nothing when the key is absent (which for add and compare_set is the same).
  Bytes stored(const std::string& key) {
    const auto r = values_.apply({StoreOp::get, {key}, {}, {}});
    return r.value ? *r.value : Bytes{};
  }

  const ProcessMark process_;
  std::mutex mutex_;
  rendezvous::FileLog log_;
  std::uint64_t changes_ = 0;  // of the table
  KeyValues values_{std::numeric_limits<std::size_t>::max() / 2};
};

}  // namespace

std::shared_ptr<Store> make_file_store(const std::string& path) { return std::make_shared<FileStore>(path); }

}  // namespace unisono
