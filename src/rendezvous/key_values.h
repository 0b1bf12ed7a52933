#pragma once
/// The table behind the memory store and the store server: what each operation does, without waiting.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "rendezvous/store_protocol.h"

namespace unisono::rendezvous {

/// Thread-safety: none; guarded by its owner.
class KeyValues {
 public:
  explicit KeyValues(std::size_t max_bytes) : max_bytes_(max_bytes) {}

  /// Do what `request` asks for. get and wait answer `timeout`, naming the missing keys, when keys are missing: the
  /// owner parks them or not. Never throws but for lack of memory.
  StoreResponse apply(const StoreRequest& request);
  /// Those of `keys` that are not there.
  std::vector<std::string> missing(std::span<const std::string> keys) const;
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  StoreResponse put(const std::string& key, Bytes value);
  StoreResponse add(const std::string& key, std::int64_t delta);
  StoreResponse compare_set(const StoreRequest& request);
  std::unordered_map<std::string, std::shared_ptr<const Bytes>> values_;
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
};

/// The sum that `add` makes of a stored decimal number; an error when it is none or the sum overflows.
Result<std::int64_t> add_to_text(std::string_view key, std::span<const std::byte> stored, std::int64_t delta);
Bytes to_bytes(std::string_view text);

/// The answer as a Status: ok, Timeout naming the missing keys, or what was wrong. `where` is the store's describe().
Status status_of(const StoreResponse& response, const std::string& where, Duration waited);
/// "key \"a\", \"b\" and 3 more", with what is not printable escaped.
std::string list_keys(std::span<const std::string> keys);

}  // namespace unisono::rendezvous
