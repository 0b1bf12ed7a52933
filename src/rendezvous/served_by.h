#pragma once
/// Who serves a store: what the server says of itself there, for those who lose it or wait for it.

#include <optional>
#include <string>
#include <string_view>

#include "rendezvous/host_identity.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

class StoreServer;

inline constexpr std::string_view kRank0 = "rank 0", kLauncher = "unisono run";

/// Say in the store of `server` that this process, which is `who`, serves it.
void say_who_serves(StoreServer& server, std::string_view who);
/// Rank 0's process, if that serves `store`. Throws nothing: of a store that is lost meanwhile,
/// whoever asks next hears.
std::optional<HostIdentity> served_by_rank_0(Store& store) noexcept;

}  // namespace unisono::rendezvous
