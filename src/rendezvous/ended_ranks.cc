#include "rendezvous/ended_ranks.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "rendezvous/key_values.h"

namespace unisono::rendezvous {

using nlohmann::json;

Bytes encode(const EndedRank& ended) {
  const json j{
      {"rank", ended.rank}, {"size", ended.size}, {"pid", ended.pid}, {"host", ended.host}, {"how", ended.how}};
  return to_bytes(j.dump(-1, ' ', false, json::error_handler_t::replace));
}

Status failure_of_ended(std::span<const std::byte> bytes, int size) {
  try {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    const json j = json::parse(text, text + bytes.size());
    if (j.at("size").get<int>() != size) return {};
    const int rank = j.at("rank").get<int>();
    const auto pid = j.at("pid").get<std::int64_t>();
    const auto host = j.at("host").get<std::string>();
    return Status::rank_failure(fmt::format("rank {} (host {}, pid {}) ended before all ranks had joined: {}. Look at "
                                            "what it printed, and whether it calls init",
                                            rank, host, pid, j.at("how").get<std::string>()),
                                rank, host, pid);
  } catch (const json::exception& e) {
    return Status::internal(fmt::format("what is said of a rank that has ended cannot be read: {}", e.what()));
  }
}

}  // namespace unisono::rendezvous
