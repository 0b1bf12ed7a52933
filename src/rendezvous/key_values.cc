#include "rendezvous/key_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include "base/checked.h"

namespace unisono::rendezvous {
namespace {

constexpr std::size_t kEntryOverhead = 128;  // what a table entry costs beside its bytes, roughly

StoreResponse failure(StoreCode code, std::string message) {
  StoreResponse r;
  r.code = code;
  r.message = std::move(message);
  return r;
}

std::string in_quotes(std::string_view key) {
  std::string text = "\"";
  for (const char c : key.substr(0, 200)) {
    const auto u = static_cast<unsigned char>(c);
    if (u >= 32 && u < 127)
      text.push_back(c);
    else
      fmt::format_to(std::back_inserter(text), "\\x{:02x}", u);
  }
  return text + '"';
}

}  // namespace

Bytes to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::string list_keys(std::span<const std::string> keys) {
  constexpr std::size_t kNamed = 8;
  std::string text = keys.size() == 1 ? "key " : "keys ";
  for (std::size_t i = 0; i < std::min(keys.size(), kNamed); i++) text += (i ? ", " : "") + in_quotes(keys[i]);
  if (keys.size() > kNamed) fmt::format_to(std::back_inserter(text), " and {} more", keys.size() - kNamed);
  return text;
}

Result<std::int64_t> add_to_text(std::string_view key, std::span<const std::byte> stored, std::int64_t delta) {
  std::int64_t old = 0;
  if (!stored.empty()) {
    const auto* begin = reinterpret_cast<const char*>(stored.data());
    const auto* end = begin + stored.size();
    const auto [stop, error] = std::from_chars(begin, end, old);
    if (error != std::errc{} || stop != end)
      return Status::invalid(fmt::format("add to store key {}: its value is not a number", in_quotes(key)));
  }
  const auto sum = checked_add(old, delta);
  if (!sum)
    return Status::invalid(fmt::format("add to store key {}: {} + {} overflows 64 bits", in_quotes(key), old, delta));
  return *sum;
}

Status status_of(const StoreResponse& r, const std::string& where, Duration waited) {
  switch (r.code) {
    case StoreCode::ok:
      return {};
    case StoreCode::timeout:
      return Status::timeout(fmt::format("{}: {} not set within {:.3f} s", where, list_keys(r.missing),
                                         std::chrono::duration<double>(waited).count()));
    case StoreCode::invalid:
      return Status::invalid(fmt::format("{}: {}", where, r.message));
    case StoreCode::full:
      return Status::system(fmt::format("{}: {}", where, r.message), 0);
  }
  return Status::internal("a store answered with an unknown code");
}

std::vector<std::string> KeyValues::missing(std::span<const std::string> keys) const {
  std::vector<std::string> absent;
  for (const auto& key : keys)
    if (!values_.contains(key)) absent.push_back(key);
  return absent;
}

StoreResponse KeyValues::apply(const StoreRequest& request) {
  for (const auto& key : request.keys)
    if (auto s = check_key(key); !s) return failure(StoreCode::invalid, s.message());
  switch (request.op) {
    case StoreOp::set:
      return put(request.keys.front(), request.value);
    case StoreOp::add:
      return add(request.keys.front(), request.delta);
    case StoreOp::compare_set:
      return compare_set(request);
    default:
      break;
  }
  StoreResponse r;
  if (request.op == StoreOp::erase) {
    if (const auto at = values_.find(request.keys.front()); at != values_.end()) {
      bytes_ -= at->first.size() + at->second->size() + kEntryOverhead;
      values_.erase(at);
      r.number = 1;
    }
    return r;
  }
  auto absent = missing(request.keys);
  r.number = absent.empty();
  if (request.op == StoreOp::check) return r;
  if (!absent.empty()) {
    r.code = StoreCode::timeout;
    r.missing = std::move(absent);
  } else if (request.op == StoreOp::get) {
    r.value = values_.at(request.keys.front());
  }
  return r;
}

StoreResponse KeyValues::put(const std::string& key, Bytes value) {
  if (auto s = check_value(value); !s) return failure(StoreCode::invalid, s.message());
  const auto at = values_.find(key);
  const std::size_t freed = at == values_.end() ? 0 : key.size() + at->second->size() + kEntryOverhead;
  const std::size_t taken = key.size() + value.size() + kEntryOverhead;
  if (bytes_ - freed + taken > max_bytes_)
    return failure(StoreCode::full, fmt::format("the store is full: {} of {} bytes are taken, key {} needs {} more",
                                                bytes_, max_bytes_, in_quotes(key), taken));
  StoreResponse r;
  r.value = std::make_shared<const Bytes>(std::move(value));
  values_.insert_or_assign(key, r.value);
  bytes_ += taken - freed;
  r.value.reset();  // a set is answered without the value
  return r;
}

StoreResponse KeyValues::add(const std::string& key, std::int64_t delta) {
  const auto at = values_.find(key);
  const auto sum = add_to_text(key, at == values_.end() ? std::span<const std::byte>{} : std::span(*at->second), delta);
  if (!sum) return failure(StoreCode::invalid, sum.status().message());
  StoreResponse r = put(key, to_bytes(std::to_string(*sum)));
  r.number = *sum;
  return r;
}

StoreResponse KeyValues::compare_set(const StoreRequest& request) {
  const auto& key = request.keys.front();
  const auto at = values_.find(key);
  const bool matches = at == values_.end() ? request.expected.empty() : *at->second == request.expected;
  if (matches)
    if (auto stored = put(key, request.value); stored.code != StoreCode::ok) return stored;
  StoreResponse r;
  const auto after = values_.find(key);
  r.value = after == values_.end() ? std::make_shared<const Bytes>() : after->second;
  return r;
}

}  // namespace unisono::rendezvous
