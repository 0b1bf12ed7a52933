#include "rendezvous/store_protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace unisono::rendezvous {
namespace {

class Writer {
 public:
  Writer() {
    out_.reserve(256);
    out_.resize(4);  // room for the frame's length
  }
  void byte(std::uint8_t v) { out_.push_back(static_cast<std::byte>(v)); }
  void u32(std::uint32_t v) { little_endian(v, 4); }
  void i64(std::int64_t v) { little_endian(static_cast<std::uint64_t>(v), 8); }
  void bytes(std::span<const std::byte> v) {
    u32(static_cast<std::uint32_t>(v.size()));
    out_.insert(out_.end(), v.begin(), v.end());
  }
  void keys(const std::vector<std::string>& keys) {
    u32(static_cast<std::uint32_t>(keys.size()));
    for (const auto& key : keys) bytes(std::as_bytes(std::span(key)));
  }
  /// The frame, whose length also counts `following` bytes that the caller sends after it.
  Bytes finish(std::size_t following = 0) && {
    const std::size_t length = out_.size() - 4 + following;
    for (std::size_t i = 0; i < 4; i++) out_[i] = static_cast<std::byte>((length >> (8 * i)) & 0xff);
    return std::move(out_);
  }

 private:
  void little_endian(std::uint64_t v, int n) {
    for (int i = 0; i < n; i++) out_.push_back(static_cast<std::byte>((v >> (8 * i)) & 0xff));
  }
  Bytes out_;
};

/// Reads what a Writer wrote; after the first thing that does not fit, everything is zero and ok() false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  bool ok() const noexcept { return ok_; }
  bool finished() const noexcept { return ok_ && in_.empty(); }
  std::uint8_t byte() { return static_cast<std::uint8_t>(little_endian(1)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(little_endian(4)); }
  std::int64_t i64() { return static_cast<std::int64_t>(little_endian(8)); }
  std::span<const std::byte> bytes(std::size_t limit) {
    const std::size_t n = u32();
    if (n > limit || !has(n)) {
      ok_ = false;
      return {};
    }
    const auto part = in_.first(n);
    in_ = in_.subspan(n);
    return part;
  }
  Bytes copy(std::size_t limit) {
    const auto part = bytes(limit);
    return {part.begin(), part.end()};
  }
  std::string text(std::size_t limit) {
    const auto part = bytes(limit);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::vector<std::string> keys() {
    const std::size_t n = u32();
    std::vector<std::string> keys;
    if (n > in_.size() / 4) ok_ = false;  // each needs four bytes at least: no allocation for what cannot be there
    for (std::size_t i = 0; ok_ && i < n; i++) keys.push_back(text(kMaxKeyBytes));
    return keys;
  }

 private:
  bool has(std::size_t n) const noexcept { return ok_ && n <= in_.size(); }
  std::uint64_t little_endian(std::size_t n) {
    if (!has(n)) {
      ok_ = false;
      return 0;
    }
    std::uint64_t v = 0;
    for (std::size_t i = 0; i < n; i++) v |= static_cast<std::uint64_t>(in_[i]) << (8 * i);
    in_ = in_.subspan(n);
    return v;
  }
  std::span<const std::byte> in_;
  bool ok_ = true;
};

constexpr std::size_t kMaxMessageBytes = 4096;

bool may_have_keys(StoreOp op, std::size_t keys) noexcept {
  if (op == StoreOp::check || op == StoreOp::wait) return true;
  return keys == 1 || (op == StoreOp::when_gone && keys == 0);
}

}  // namespace

Status check_key(std::string_view key) {
  if (key.empty()) return Status::invalid("a store key is empty");
  if (key.size() > kMaxKeyBytes)
    return Status::invalid(fmt::format("a store key has {} bytes, the limit is {}", key.size(), kMaxKeyBytes));
  return {};
}

Status check_value(std::span<const std::byte> value) {
  if (value.size() > kMaxValueBytes)
    return Status::invalid(fmt::format("a store value has {} bytes, the limit is {}", value.size(), kMaxValueBytes));
  return {};
}

Bytes encode(const StoreRequest& r) {
  Writer w;
  w.byte(static_cast<std::uint8_t>(r.op));
  w.i64(r.timeout.count());
  w.i64(r.delta);
  w.keys(r.keys);
  w.bytes(r.value);
  w.bytes(r.expected);
  return std::move(w).finish();
}

Bytes encode_head(const StoreResponse& r) {
  const std::size_t value_bytes = r.value ? r.value->size() : 0;
  Writer w;
  w.byte(static_cast<std::uint8_t>(r.code));
  w.i64(r.number);
  w.keys(r.missing);
  w.bytes(std::as_bytes(std::span(r.message.data(), std::min(r.message.size(), kMaxMessageBytes))));
  w.u32(static_cast<std::uint32_t>(value_bytes));
  return std::move(w).finish(value_bytes);
}

Result<StoreRequest> decode_request(std::span<const std::byte> body) {
  Reader in(body);
  StoreRequest r;
  const std::uint8_t op = in.byte();
  r.op = static_cast<StoreOp>(op);
  r.timeout = Duration(in.i64());
  r.delta = in.i64();
  r.keys = in.keys();
  r.value = in.copy(kMaxValueBytes);
  r.expected = in.copy(kMaxValueBytes);
  if (!in.finished()) return Status::invalid("a store request that cannot be read");
  if (op < static_cast<std::uint8_t>(StoreOp::set) || op > static_cast<std::uint8_t>(StoreOp::when_gone))
    return Status::invalid(fmt::format("store operation {} is unknown", op));
  if (!may_have_keys(r.op, r.keys.size()))
    return Status::invalid(fmt::format("store operation {} with {} keys", op, r.keys.size()));
  for (const auto& key : r.keys) UNISONO_TRY(check_key(key));
  if (r.timeout.count() < 0) return Status::invalid("a store request with a negative timeout");
  return r;
}

Result<StoreResponse> decode_response(std::span<const std::byte> body) {
  Reader in(body);
  StoreResponse r;
  const std::uint8_t code = in.byte();
  r.code = static_cast<StoreCode>(code);
  r.number = in.i64();
  r.missing = in.keys();
  r.message = in.text(kMaxMessageBytes);
  r.value = std::make_shared<const Bytes>(in.copy(kMaxValueBytes));
  if (!in.finished() || code > static_cast<std::uint8_t>(StoreCode::full))
    return Status::internal("a store response that cannot be read");
  return r;
}

std::optional<std::size_t> FrameReader::announced() const noexcept {
  if (buffer_.size() < 4) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; i++) length |= static_cast<std::size_t>(buffer_[i]) << (8 * i);
  return length;
}

Status FrameReader::feed(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (const auto length = announced(); length && *length > kMaxFrameBytes)
    return Status::invalid(
        fmt::format("a store frame of {} bytes is announced, the limit is {}", *length, kMaxFrameBytes));
  return {};
}

std::optional<Bytes> FrameReader::next() {
  const auto length = announced();
  // The next frame's length is checked here too: feed() saw only the first of those that came together.
  if (!length || *length > kMaxFrameBytes || buffer_.size() - 4 < *length) return std::nullopt;
  const auto begin = buffer_.begin() + 4;
  const auto end = begin + static_cast<std::ptrdiff_t>(*length);
  Bytes body(begin, end);
  buffer_.erase(buffer_.begin(), end);
  return body;
}

}  // namespace unisono::rendezvous
