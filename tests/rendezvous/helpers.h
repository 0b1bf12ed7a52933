#pragma once
/// What the tests of rendezvous share.

#include <unistd.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/handshake.h"
#include "rendezvous/environment.h"
#include "rendezvous/job_handshake.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous::test {

inline Bytes bytes_of(std::string_view text) {
  const auto view = std::as_bytes(std::span(text));
  return {view.begin(), view.end()};
}
inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline constexpr std::string_view kSecretText = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
inline constexpr std::string_view kOtherSecretText = "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

inline Secret secret(std::string_view hex = kSecretText) { return value_or_throw(Secret::parse(hex)); }

inline std::shared_ptr<HandshakeFactory> store_handshake(std::string_view hex = kSecretText, std::string job = "job") {
  return make_handshake_factory(PeerId{}, std::move(job), secret(hex), Purpose::store);
}

/// An environment that is a map.
inline Environment environment_of(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    if (at == variables.end()) return std::nullopt;
    return at->second;
  };
}

/// A name that no other test, and no other run of this one, has.
inline std::string unique_name(std::string_view what) {
  return std::string(what) + "-" + std::to_string(::getpid()) + "-" + to_string(random_peer_id());
}

/// As another library's: a store in memory that has nothing of ours but what Store asks for.
class PlainStore : public Store {
 public:
  void set(std::string_view key, std::span<const std::byte> value) override { inner_->set(key, value); }
  Bytes get(std::string_view key, Duration timeout) override { return inner_->get(key, timeout); }
  std::int64_t add(std::string_view key, std::int64_t delta) override { return inner_->add(key, delta); }
  Bytes compare_set(std::string_view key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override {
    return inner_->compare_set(key, expected, desired);
  }
  bool check(std::span<const std::string> keys) override { return inner_->check(keys); }
  void wait(std::span<const std::string> keys, Duration timeout) override { inner_->wait(keys, timeout); }
  bool erase(std::string_view key) override { return inner_->erase(key); }
  std::string describe() const override { return "plain store"; }

 private:
  std::shared_ptr<Store> inner_ = make_memory_store();
};

/// A directory that goes away with its files.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = "/tmp/unisono-test-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  ~TemporaryDirectory();
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

inline TemporaryDirectory::~TemporaryDirectory() {
  const std::string command = "rm -rf '" + path_ + "'";
  (void)!std::system(command.c_str());
}

}  // namespace unisono::rendezvous::test
