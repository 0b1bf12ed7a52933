#include "engine/wait_notice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace unisono::engine {

using nlohmann::json;

namespace {
constexpr std::size_t kMostShown = 16;
}

std::vector<std::byte> WaitNotice::encode() const {
  json list = json::array();
  for (const WaitHop& hop : hops)
    list.push_back({{"wait", hop.wait},
                    {"certain", hop.certain},
                    {"collective", hop.collective},
                    {"rank", hop.rank},
                    {"text", hop.text}});
  const json j{{"kind", static_cast<int>(kind)}, {"to", to},           {"wait", wait},           {"group", group},
               {"sequence", sequence},           {"certain", certain}, {"hops", std::move(list)}};
  const std::string text = j.dump(-1, ' ', false, json::error_handler_t::replace);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

Result<WaitNotice> WaitNotice::decode(std::span<const std::byte> bytes) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const json j = json::parse(text, text + bytes.size(), nullptr, false);
  try {
    WaitNotice notice;
    const int kind = j.at("kind").get<int>();
    if (kind < 0 || kind > static_cast<int>(Kind::end))
      return Status::invalid(fmt::format("a notice of a wait of kind {}", kind));
    notice.kind = static_cast<Kind>(kind);
    notice.to = j.at("to").get<std::uint64_t>();
    notice.wait = j.at("wait").get<std::uint64_t>();
    notice.group = j.at("group").get<std::uint64_t>();
    notice.sequence = j.at("sequence").get<std::uint64_t>();
    notice.certain = j.at("certain").get<bool>();
    for (const json& hop : j.at("hops"))
      notice.hops.push_back({hop.at("wait").get<std::uint64_t>(), hop.at("certain").get<bool>(),
                             hop.at("collective").get<bool>(), hop.at("rank").get<int>(),
                             hop.at("text").get<std::string>()});
    return notice;
  } catch (const json::exception& e) {
    return Status::invalid(fmt::format("a notice of a wait that cannot be read: {}", e.what()));
  }
}

std::string describe_cycle(std::span<const WaitHop> cycle) {
  std::vector<WaitHop> hops(cycle.begin(), cycle.end());
  std::ranges::rotate(hops, std::ranges::min_element(hops, {}, &WaitHop::rank));
  const bool collectives = std::ranges::any_of(hops, &WaitHop::collective);
  const std::size_t shown = std::min(hops.size(), kMostShown);
  std::vector<int> ranks;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < shown; i++) {
    ranks.push_back(hops[i].rank);
    texts.push_back(hops[i].text);
  }
  const std::string more = shown < hops.size() ? fmt::format(", and {} more", hops.size() - shown) : "";
  return fmt::format(
      "ranks {}{} wait for each other: {}{}; nothing can come. {}",
      hops.size() == 2 ? fmt::format("{} and {}", ranks[0], ranks[1]) : fmt::format("{}", fmt::join(ranks, ", ")), more,
      fmt::join(texts, "; "), more,
      collectives ? "Let all ranks make their calls in the same order, and each send come before what waits for it"
                  : "Let one of them send first, or start its send or receive with isend or irecv before it waits");
}

}  // namespace unisono::engine
