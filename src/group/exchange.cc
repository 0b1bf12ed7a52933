#include "group/exchange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace unisono::group {

using nlohmann::json;

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string text_of(const Bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
std::string member_key(const std::string& prefix, int rank) { return fmt::format("{}/rank/{}", prefix, rank); }

Status missing_ranks(const Store& store, int size, const std::vector<int>& missing, Duration waited) {
  return Status::timeout(
      fmt::format("only {} of {} ranks joined within {:.0f} s at the {}; missing: rank{} {}. Look at what {} printed, "
                  "or whether "
                  "the job was started with another size",
                  size - static_cast<int>(missing.size()), size, std::chrono::duration<double>(waited).count(),
                  store.describe(), missing.size() == 1 ? "" : "s", fmt::join(missing, ", "),
                  missing.size() == 1 ? "it" : "they"),
      missing);
}

/// Rank 0: the document that everybody reads, an error of its own when ranks are missing.
json gather(Store& store, const std::string& prefix, int size, const std::string& mine, TimePoint deadline,
            Duration timeout, const Clock& clock) {
  std::vector<std::string> texts{mine};
  for (int r = 1; r < size; r++) {
    try {
      texts.push_back(text_of(
          store.get(member_key(prefix, r), std::max<Duration>(deadline - clock.now(), std::chrono::milliseconds(1)))));
    } catch (const Timeout&) {
      std::vector<int> missing;
      for (int q = 1; q < size; q++)
        if (const std::string key = member_key(prefix, q); !store.check(std::span(&key, 1))) missing.push_back(q);
      if (missing.empty()) {  // it came at the last moment
        r--;
        continue;
      }
      const Status status = missing_ranks(store, size, missing, timeout);
      return {{"error", status.message()}, {"missing", status.missing()}};
    }
  }
  return {{"texts", texts}};
}

}  // namespace

Result<std::vector<std::string>> exchange(Store& store, const std::string& prefix, int rank, int size,
                                          const std::string& mine, Duration timeout, const Clock& clock) {
  auto all = exchange_and_decide(store, prefix, rank, size, mine, timeout, clock, nullptr);
  if (!all) return all.status();
  return std::move(all->texts);
}

Result<Exchanged> exchange_and_decide(Store& store, const std::string& prefix, int rank, int size,
                                      const std::string& mine, Duration timeout, const Clock& clock,
                                      const Decide& decide) {
  const TimePoint deadline = saturating_add(clock.now(), timeout);
  const std::string all_key = prefix + "/all";
  try {
    json all;
    if (rank == 0) {
      all = gather(store, prefix, size, mine, deadline, timeout, clock);
      if (decide && all.contains("texts")) all["decision"] = decide(all.at("texts").get<std::vector<std::string>>());
      store.set(all_key, bytes_of(all.dump()));
    } else {
      store.set(member_key(prefix, rank), bytes_of(mine));
      // A little longer than rank 0 waits, so that its document, which names all who are missing, wins.
      try {
        all = json::parse(text_of(
            store.get(all_key, std::max<Duration>(deadline - clock.now(), Duration{0}) + std::chrono::seconds(2))));
      } catch (const Timeout&) {
        std::vector<int> missing{0};
        for (int q = 1; q < size; q++)
          if (const std::string key = member_key(prefix, q); !store.check(std::span(&key, 1))) missing.push_back(q);
        return missing_ranks(store, size, missing, timeout);
      }
    }
    if (all.contains("error"))
      return Status::timeout(all.at("error").get<std::string>(), all.at("missing").get<std::vector<int>>());
    auto texts = all.at("texts").get<std::vector<std::string>>();
    if (static_cast<int>(texts.size()) != size)
      return Status::invalid(
          fmt::format("rank 0 made this group with {} ranks, rank {} with {}", texts.size(), rank, size));
    return Exchanged{std::move(texts), all.value("decision", "")};
  } catch (const json::exception& e) {
    return Status::internal(
        fmt::format("the document at {} of the {} cannot be read: {}", all_key, store.describe(), e.what()));
  } catch (...) {
    return status_from_current_exception();
  }
}

}  // namespace unisono::group
