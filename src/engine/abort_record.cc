#include "engine/abort_record.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace unisono::engine {

using nlohmann::json;

std::vector<std::byte> AbortRecord::encode() const {
  json j{{"group", group},
         {"code", static_cast<int>(status.code())},
         {"message", status.message()},
         {"rank", status.rank()},
         {"other", status.other()},
         {"host", status.host()},
         {"pid", status.pid()},
         {"missing", status.missing()}};
  if (dead) j["dead"] = to_string(*dead);
  const std::string text = j.dump(-1, ' ', false, json::error_handler_t::replace);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

Result<AbortRecord> AbortRecord::decode(std::span<const std::byte> bytes) {
  const json j = json::parse(reinterpret_cast<const char*>(bytes.data()),
                             reinterpret_cast<const char*>(bytes.data()) + bytes.size(), nullptr, false);
  try {
    AbortRecord record;
    record.group = j.at("group").get<std::uint64_t>();
    const auto message = j.at("message").get<std::string>();
    switch (static_cast<Code>(j.at("code").get<int>())) {
      case Code::rank_failure:
        record.status = Status::rank_failure(message, j.at("rank").get<int>(), j.at("host").get<std::string>(),
                                             j.at("pid").get<std::int64_t>());
        break;
      case Code::mismatch:
        record.status = Status::mismatch(message, j.at("rank").get<int>(), j.at("other").get<int>());
        break;
      case Code::timeout:
        record.status = Status::timeout(message, j.at("missing").get<std::vector<int>>());
        break;
      case Code::aborted:
        record.status = Status::aborted(message, j.at("host").get<std::string>(), j.at("pid").get<std::int64_t>());
        break;
      default:
        record.status = Status::system(message, 0);
        break;
    }
    if (j.contains("dead")) {
      auto id = parse_peer_id(j.at("dead").get<std::string>());
      if (!id) return id.status();
      record.dead = *id;
    }
    return record;
  } catch (const json::exception& e) {
    return Status::invalid(fmt::format("an abort record that cannot be read: {}", e.what()));
  }
}

}  // namespace unisono::engine
