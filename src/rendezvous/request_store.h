#pragma once
/// A store whose operations all are requests, to a server or to a table of its own.

#include <algorithm>
#include <string>

#include "base/status.h"
#include "rendezvous/key_values.h"
#include "rendezvous/store_protocol.h"
#include "rendezvous/when_gone.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// Thread-safety: that of call().
class RequestStore : public Store, public KeepsLastWords {
 public:
  void set(std::string_view key, std::span<const std::byte> value) override {
    throw_status(check_value(value).with_context(describe()));
    StoreRequest r{StoreOp::set, {std::string(key)}, {value.begin(), value.end()}, {}};
    call(r);
  }
  Bytes get(std::string_view key, Duration timeout) override {
    StoreRequest r{StoreOp::get, {std::string(key)}, {}, {}};
    r.timeout = std::max(timeout, Duration{0});
    return *call(r).value;
  }
  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return call({StoreOp::add, {std::string(key)}, {}, {}, delta}).number;
  }
  Bytes compare_set(std::string_view key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override {
    throw_status(check_value(expected).with_context(describe()));
    throw_status(check_value(desired).with_context(describe()));
    return *call({StoreOp::compare_set,
                  {std::string(key)},
                  {desired.begin(), desired.end()},
                  {expected.begin(), expected.end()}})
                .value;
  }
  bool check(std::span<const std::string> keys) override {
    return call({StoreOp::check, {keys.begin(), keys.end()}, {}, {}}).number != 0;
  }
  void wait(std::span<const std::string> keys, Duration timeout) override {
    StoreRequest r{StoreOp::wait, {keys.begin(), keys.end()}, {}, {}};
    r.timeout = std::max(timeout, Duration{0});
    call(r);
  }
  bool erase(std::string_view key) override { return call({StoreOp::erase, {std::string(key)}, {}, {}}).number != 0; }
  bool set_when_gone(std::string_view key, std::span<const std::byte> value) override {
    throw_status(check_value(value).with_context(describe()));
    call({StoreOp::when_gone, {std::string(key)}, {value.begin(), value.end()}, {}});
    return true;
  }

 protected:
  /// The answer; throws what went wrong.
  virtual StoreResponse call(const StoreRequest& request) = 0;
};

}  // namespace unisono::rendezvous
