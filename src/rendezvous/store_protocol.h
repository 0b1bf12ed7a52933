#pragma once
/// What a store client and a store server say to each other once the handshake is done. Bytes in, values out: no I/O.
///
/// A frame is a 32-bit length (little endian) and that many bytes. A client sends one request and reads one response
/// before the next. Every length is checked against the limits below before anything is allocated for it.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "unisono/store.hpp"

namespace unisono::rendezvous {

inline constexpr std::size_t kMaxKeyBytes = 1024;
inline constexpr std::size_t kMaxValueBytes = std::size_t{8} << 20;
inline constexpr std::size_t kMaxKeysBytes = std::size_t{1} << 20;  ///< keys of one call together, with 4 bytes each
inline constexpr std::size_t kMaxFrameBytes = 2 * kMaxValueBytes + kMaxKeysBytes + 64;

inline constexpr std::size_t kMaxLastWords = 64 << 10;  ///< bytes that one connection may leave, keys included

/// Under which the server says who it is: a line for people, "rank 0 (host a, pid 1)", and one with
/// its HostIdentity.
inline constexpr const char* kServedByKey = "served by";

enum class StoreOp : std::uint8_t { set = 1, get, add, compare_set, check, wait, erase, when_gone };

struct StoreRequest {
  StoreOp op = StoreOp::get;
  std::vector<std::string> keys;  ///< one; any number for check and wait; when_gone: one, or none to leave in peace
  Bytes value;                    ///< set, when_gone: the value; compare_set: the desired value
  Bytes expected;                 ///< compare_set
  std::int64_t delta = 0;         ///< add
  Duration timeout{0};            ///< get, wait: how long to park
};

enum class StoreCode : std::uint8_t { ok = 0, timeout = 1, invalid = 2, full = 3 };

struct StoreResponse {
  StoreCode code = StoreCode::ok;
  std::int64_t number = 0;             ///< add: the sum; check, erase: 0 or 1
  std::vector<std::string> missing;    ///< timeout: keys that were not there
  std::string message;                 ///< invalid, full: why
  std::shared_ptr<const Bytes> value;  ///< get, compare_set; shared with the store, so that many readers cost no copies
};

/// Whether key and value are within the limits; the error says which is not.
Status check_key(std::string_view key);
Status check_value(std::span<const std::byte> value);

/// A whole frame.
Bytes encode(const StoreRequest& request);
/// A frame up to the value's bytes: response.value follows it as it is.
Bytes encode_head(const StoreResponse& response);
/// From the bytes of a frame after its length. Errors for anything that the encoder would not have made.
Result<StoreRequest> decode_request(std::span<const std::byte> body);
Result<StoreResponse> decode_response(std::span<const std::byte> body);

/// Cuts a byte stream into frames, however it arrives.
class FrameReader {
 public:
  /// Take bytes that were received. An error when they announce a frame beyond the limit: close the connection.
  Status feed(std::span<const std::byte> bytes);
  /// The next complete frame's body, or nothing yet.
  std::optional<Bytes> next();
  /// Bytes held.
  std::size_t buffered() const noexcept { return buffer_.size(); }

 private:
  std::optional<std::size_t> announced() const noexcept;
  Bytes buffer_;
};

}  // namespace unisono::rendezvous
