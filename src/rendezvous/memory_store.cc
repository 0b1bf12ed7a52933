/// A store inside one process, for ranks that are threads.

#include <condition_variable>
#include <limits>
#include <mutex>

#include "base/clock.h"
#include "base/process_mark.h"
#include "rendezvous/key_values.h"
#include "rendezvous/when_gone.h"
#include "unisono/store.hpp"

namespace unisono {

Store::~Store() = default;

namespace {

using rendezvous::StoreOp;
using rendezvous::StoreRequest;
using rendezvous::StoreResponse;

class MemoryStore final : public Store, public rendezvous::KeepsLastWords {
 public:
  /// Nobody is left to read them.
  bool set_when_gone(std::string_view, std::span<const std::byte>) override { return true; }
  void set(std::string_view key, std::span<const std::byte> value) override {
    StoreRequest r{StoreOp::set, {std::string(key)}, {value.begin(), value.end()}, {}};
    run(r, Duration{0});
  }
  Bytes get(std::string_view key, Duration timeout) override {
    return *run({StoreOp::get, {std::string(key)}, {}, {}}, timeout).value;
  }
  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return run({StoreOp::add, {std::string(key)}, {}, {}, delta}, Duration{0}).number;
  }
  Bytes compare_set(std::string_view key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override {
    const StoreRequest r{
        StoreOp::compare_set, {std::string(key)}, {desired.begin(), desired.end()}, {expected.begin(), expected.end()}};
    return *run(r, Duration{0}).value;
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
  std::string describe() const override { return "memory store"; }

 private:
  StoreResponse run(const StoreRequest& request, Duration timeout) {
    throw_status(process_.check(describe()));
    const TimePoint deadline = saturating_add(std::chrono::steady_clock::now(), timeout);
    std::unique_lock lock(mutex_);
    StoreResponse response = values_.apply(request);
    while (response.code == rendezvous::StoreCode::timeout && std::chrono::steady_clock::now() < deadline) {
      if (deadline == TimePoint::max())
        changed_.wait(lock);
      else
        changed_.wait_until(lock, deadline);
      response = values_.apply(request);
    }
    lock.unlock();
    if (request.op == StoreOp::set || request.op == StoreOp::add || request.op == StoreOp::compare_set)
      changed_.notify_all();
    throw_status(rendezvous::status_of(response, describe(), timeout));
    return response;
  }

  const ProcessMark process_;
  std::mutex mutex_;
  std::condition_variable changed_;
  rendezvous::KeyValues values_{std::numeric_limits<std::size_t>::max() / 2};
};

}  // namespace

std::shared_ptr<Store> make_memory_store() { return std::make_shared<MemoryStore>(); }

}  // namespace unisono
