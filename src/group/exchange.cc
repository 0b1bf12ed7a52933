#include "group/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/abort_record.h"
#include "rendezvous/attendance.h"
#include "rendezvous/watchful_get.h"

namespace unisono::group {

using nlohmann::json;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
std::string member_key(const Party& party, int rank) { return fmt::format("{}/rank/{}", party.prefix, rank); }

/// Of ranks 1 and up.
std::vector<int> not_there(const Party& party) {
  std::vector<int> missing;
  for (int r = 1; r < party.size; r++)
    if (const std::string key = member_key(party, r); !party.store.check(std::span(&key, 1))) missing.push_back(r);
  return missing;
}

Status missing_ranks(const Party& party, const std::vector<int>& missing) {
  return rendezvous::missing_ranks(party.store.describe(), party.size, missing, party.timeout);
}

/// What the watch says when the store is lost. The store's connection may end a moment before
/// others tell why.
Status late_news(const Party& party) noexcept {
  constexpr auto kLast = std::chrono::milliseconds(300), kBetween = std::chrono::milliseconds(10);
  for (const auto until = std::chrono::steady_clock::now() + kLast;;) {
    try {
      if (Status gone = party.watch ? party.watch() : Status(); !gone.ok()) return gone;
    } catch (...) {  // it asks the store, too
    }
    if (!party.watch || std::chrono::steady_clock::now() > until) return {};
    std::this_thread::sleep_for(kBetween);
  }
}

/// The value of `key`; the watch's error; or Timeout, as an exception.
Result<std::string> wait_for(const Party& party, const std::string& key, TimePoint deadline) {
  const Duration left = std::max<Duration>(deadline - party.clock.now(), std::chrono::milliseconds(1));
  if (!party.watch) return text_of(party.store.get(key, left));
  Status gone;
  try {
    return text_of(rendezvous::watchful_get(party.store, key, left, party.size, [&] {
      gone = party.watch();
      throw_status(gone);
    }));
  } catch (...) {
    if (!gone.ok()) return gone;
    throw;
  }
}

/// Rank 0: all texts, or why there are not.
Result<std::vector<std::string>> gather(const Party& party, const std::string& mine, TimePoint deadline) {
  std::vector<std::string> texts{mine};
  while (static_cast<int>(texts.size()) < party.size) {
    try {
      auto text = wait_for(party, member_key(party, static_cast<int>(texts.size())), deadline);
      if (!text) return text.status();
      texts.push_back(std::move(text).value());
    } catch (const Timeout&) {
      if (const auto missing = not_there(party); !missing.empty()) return missing_ranks(party, missing);
      // It came at the last moment.
    }
  }
  return texts;
}

/// Rank 0: the document that everybody reads, an error of its own when ranks are missing.
json document(const Party& party, const std::string& mine, TimePoint deadline, const Decide& decide) {
  const auto texts = gather(party, mine, deadline);
  if (!texts) return {{"error", text_of(engine::AbortRecord{0, {}, texts.status()}.encode())}};
  json all{{"texts", *texts}};
  if (decide) all["decision"] = decide(*texts);
  return all;
}

/// The others: rank 0's document.
Result<json> read_document(const Party& party, const std::string& key, TimePoint deadline) {
  // A little longer than rank 0 waits, so that its document, which names all who are missing, wins.
  const TimePoint last = saturating_add(std::max(deadline, party.clock.now()), std::chrono::seconds(2));
  try {
    const auto text = wait_for(party, key, last);
    if (!text) return text.status();
    return json::parse(*text);
  } catch (const Timeout&) {
    std::vector<int> missing = not_there(party);
    missing.insert(missing.begin(), 0);
    return missing_ranks(party, missing);
  }
}

Result<Exchanged> parse(const Party& party, const json& all) {
  if (all.contains("error")) {
    const auto why = engine::AbortRecord::decode(bytes_of(all.at("error").get<std::string>()));
    return why ? why->status : why.status();
  }
  auto texts = all.at("texts").get<std::vector<std::string>>();
  if (static_cast<int>(texts.size()) != party.size)
    return Status::invalid(
        fmt::format("rank 0 made this group with {} ranks, rank {} with {}", texts.size(), party.rank, party.size));
  return Exchanged{std::move(texts), all.value("decision", "")};
}

}  // namespace

Status about_store(const Party& party, const Status& why) {
  if (!party.server || why.code() != Code::system) return why;
  try {
    const std::string any = "answers";
    (void)party.store.check(std::span(&any, 1));
    return why;
  } catch (const Error&) {
    const StoreServer& server = *party.server;
    return Status::rank_failure(fmt::format("{} (host {}, pid {}), which serves the store, has ended: {}", server.who,
                                            server.host, server.pid, why.message()),
                                server.rank, server.host, server.pid);
  }
}

Result<std::vector<std::string>> exchange(const Party& party, const std::string& mine) {
  auto all = exchange_and_decide(party, mine, nullptr);
  if (!all) return all.status();
  return std::move(all->texts);
}

Result<Exchanged> exchange_and_decide(const Party& party, const std::string& mine, const Decide& decide) {
  const TimePoint deadline = saturating_add(party.clock.now(), party.timeout);
  const std::string key = party.prefix + "/all";
  try {
    if (party.rank == 0) {
      const json all = document(party, mine, deadline, decide);
      party.store.set(key, bytes_of(all.dump()));
      return parse(party, all);
    }
    party.store.set(member_key(party, party.rank), bytes_of(mine));
    const auto all = read_document(party, key, deadline);
    return all ? parse(party, *all) : Result<Exchanged>(all.status());
  } catch (const json::exception& e) {
    return Status::internal(
        fmt::format("the document at {} of the {} cannot be read: {}", key, party.store.describe(), e.what()));
  } catch (...) {
    const Status why = status_from_current_exception();
    if (why.code() != Code::system) return why;
    const Status gone = late_news(party);
    return gone.ok() ? about_store(party, why) : gone;
  }
}

}  // namespace unisono::group
