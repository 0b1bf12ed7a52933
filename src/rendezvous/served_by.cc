#include "rendezvous/served_by.h"

#include <fmt/format.h>

#include "rendezvous/key_values.h"
#include "rendezvous/store_protocol.h"
#include "rendezvous/store_server.h"

namespace unisono::rendezvous {

void say_who_serves(StoreServer& server, std::string_view who) {
  const auto here = this_host();
  if (!here) return;
  server.set_first(kServedByKey,
                   to_bytes(fmt::format("{} (host {}, pid {})\n{}", who, here->host, here->pid, to_text(*here))));
}

std::optional<HostIdentity> served_by_rank_0(Store& store) noexcept try {
  const Bytes bytes = store.get(kServedByKey, Duration{0});
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto line = text.find('\n');
  if (!text.starts_with(kRank0) || line == std::string_view::npos) return std::nullopt;
  auto identity = parse_host_identity(text.substr(line + 1));
  return identity ? std::optional(std::move(*identity)) : std::nullopt;
} catch (...) {
  return std::nullopt;
}

}  // namespace unisono::rendezvous
