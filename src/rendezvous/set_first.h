#pragma once
/// The first value of a key counts.

#include <span>
#include <string>

#include "unisono/error.hpp"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// Set `key`, unless it has a value; the one that it has then. By compare_set. Stores that users
/// write for torch in Python have none: there two that set the key in the same moment may both read
/// their own. Throws as Store::set does.
inline Bytes set_first(Store& store, const std::string& key, std::span<const std::byte> value) {
  try {
    return store.compare_set(key, {}, value);
  } catch (const SystemError&) {
    if (!store.check(std::span(&key, 1))) store.set(key, value);
    return store.get(key, std::chrono::seconds(1));
  }
}

}  // namespace unisono::rendezvous
