#include "store.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <chrono>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unisono/error.hpp>

namespace unisono::torch_backend {
namespace {

using std::chrono::milliseconds;
using Octets = std::vector<std::uint8_t>;

Octets octets(std::span<const std::byte> bytes) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  return {data, data + bytes.size()};
}

Bytes bytes_of(const Octets& octets) {
  const auto* data = reinterpret_cast<const std::byte*>(octets.data());
  return {data, data + octets.size()};
}

/// At least 1 ms: to torch 0 means for ever.
milliseconds limit_of(Duration timeout) {
  return std::clamp(std::chrono::ceil<milliseconds>(timeout), milliseconds(1),
                    milliseconds(std::chrono::hours(24 * 365)));
}

/// Run f; what torch's store raises becomes unisono's.
template <class F>
auto guarded(const char* verb, std::string_view key, F&& f) {
  try {
    return f();
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& e) {
    throw SystemError(c10::str("torch store, ", verb, " of key ", std::string(key), ": ", e.what_without_backtrace()),
                      0);
  } catch (const std::exception& e) {
    throw SystemError(c10::str("torch store, ", verb, " of key ", std::string(key), ": ", e.what()), 0);
  }
}

}  // namespace

Duration saturated(milliseconds timeout) {
  constexpr milliseconds longest = std::chrono::hours(24 * 365 * 100);
  return timeout < -longest ? longest : std::min(timeout, longest);
}

bool TorchStore::on_this_host() const {
  auto* prefixed = dynamic_cast<c10d::PrefixStore*>(store_.get());
  const auto found = prefixed == nullptr ? store_ : prefixed->getUnderlyingNonPrefixStore();
  const auto* tcp = dynamic_cast<const c10d::TCPStore*>(found.get());
  if (tcp == nullptr) return false;
  const std::string& host = tcp->getHost();
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void TorchStore::remember(std::string_view key) {
  const std::lock_guard lock(mutex_);
  mine_.emplace(key);
}

void TorchStore::set(std::string_view key, std::span<const std::byte> value) {
  remember(key);
  guarded("set", key, [&] { store_->set(std::string(key), octets(value)); });
}

Bytes TorchStore::get(std::string_view key, Duration timeout) {
  const std::string name(key);
  wait(std::span(&name, 1), timeout);
  return guarded("get", key, [&] { return bytes_of(store_->get(name)); });
}

std::int64_t TorchStore::add(std::string_view key, std::int64_t delta) {
  remember(key);
  return guarded("add", key, [&] { return store_->add(std::string(key), delta); });
}

Bytes TorchStore::compare_set(std::string_view key, std::span<const std::byte> expected,
                              std::span<const std::byte> desired) {
  remember(key);
  return guarded("compare_set", key,
                 [&] { return bytes_of(store_->compareSet(std::string(key), octets(expected), octets(desired))); });
}

bool TorchStore::check(std::span<const std::string> keys) {
  return guarded("check", keys.empty() ? "" : keys.front(), [&] { return store_->check({keys.begin(), keys.end()}); });
}

void TorchStore::wait(std::span<const std::string> keys, Duration timeout) {
  if (keys.empty()) return;
  const auto limit = limit_of(timeout);
  const auto until = std::chrono::steady_clock::now() + limit;
  try {
    guarded("wait", keys.front(), [&] { store_->wait({keys.begin(), keys.end()}, limit); });
  } catch (const SystemError& e) {
    // torch's stores tell a missed key from a lost server in their text alone, and each in words of its own.
    if (std::chrono::steady_clock::now() + milliseconds(1) < until) throw;
    throw Timeout(e.what(), {});
  }
}

bool TorchStore::erase(std::string_view key) {
  return guarded("erase", key, [&] { return store_->deleteKey(std::string(key)); });
}

void TorchStore::forget() noexcept {
  const std::lock_guard lock(mutex_);
  for (const std::string& key : mine_) try {
      store_->deleteKey(key);
    } catch (const std::exception&) {  // FileStore over some file systems, stores of users: the key stays, as with Gloo
      break;
    }
  mine_.clear();
}

}  // namespace unisono::torch_backend
