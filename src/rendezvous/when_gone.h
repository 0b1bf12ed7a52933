#pragma once
/// A last word: what a store publishes for a process that ends without leaving the store.

#include <memory>
#include <span>
#include <string_view>

#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// A store that notices when a process which uses it is gone. Thread-safety: any thread.
class KeepsLastWords {
 public:
  virtual ~KeepsLastWords() = default;
  /// Set `key` to `value`, if nobody has set it before, as soon as this process ends without
  /// destroying its store: it is killed, or its host is. False: this store cannot know. Throws as
  /// Store::set does.
  virtual bool set_when_gone(std::string_view key, std::span<const std::byte> value) = 0;
  /// Whether it can.
  virtual bool can_notice() const noexcept { return true; }
};

inline bool keeps_last_words(const Store& store) noexcept {
  const auto* keeper = dynamic_cast<const KeepsLastWords*>(&store);
  return keeper != nullptr && keeper->can_notice();
}

/// The same for any store; false for those of other libraries.
inline bool set_when_gone(Store& store, std::string_view key, std::span<const std::byte> value) {
  auto* keeper = dynamic_cast<KeepsLastWords*>(&store);
  return keeper != nullptr && keeper->set_when_gone(key, value);
}

}  // namespace unisono::rendezvous
