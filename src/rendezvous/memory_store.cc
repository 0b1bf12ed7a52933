/// A store inside one process, for ranks that are threads.

#include <condition_variable>
#include <limits>
#include <mutex>

#include "base/clock.h"
#include "base/process_mark.h"
#include "rendezvous/key_values.h"
#include "rendezvous/request_store.h"
#include "unisono/store.hpp"

namespace unisono {

Store::~Store() = default;

namespace {

using rendezvous::StoreOp;
using rendezvous::StoreRequest;
using rendezvous::StoreResponse;

class MemoryStore final : public rendezvous::RequestStore {
 public:
  /// Nobody is left to read them.
  bool set_when_gone(std::string_view, std::span<const std::byte>) override { return true; }
  std::string describe() const override { return "memory store"; }

 private:
  StoreResponse call(const StoreRequest& request) override {
    throw_status(process_.check(describe()));
    const TimePoint deadline = saturating_add(std::chrono::steady_clock::now(), request.timeout);
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
    throw_status(rendezvous::status_of(response, describe(), request.timeout));
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
