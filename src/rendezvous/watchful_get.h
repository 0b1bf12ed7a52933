#pragma once
/// Waiting for a key as long as there is use in it.

#include <functional>
#include <string>

#include "unisono/store.hpp"

namespace unisono::rendezvous {

/// As Store::get; now and then `news` is asked, which throws why there is no use in waiting. It
/// does not count when the key is there: whoever has left may have done its part before.
///
/// A store of our own is asked to wait, in parts that become longer. Of another one (a file,
/// torch's) it is only asked whether the key is there: torch's TCPStore logs a warning for each
/// wait that ends in vain. `clients`: how many may wait so at once; the more they are, the more
/// seldom each asks.
Bytes watchful_get(Store& store, const std::string& key, Duration patience, int clients,
                   const std::function<void()>& news);

}  // namespace unisono::rendezvous
