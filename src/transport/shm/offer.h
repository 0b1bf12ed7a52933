#pragma once
/// What the two ends of a unix socket hand each other after the handshake: where the control block is, and, as SCM_RIGHTS, the
/// segment and the doorbell.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/fd.h"

namespace unisono::transport::shm {

struct Offer {
  std::uint64_t magic = 0;
  std::uint32_t version = 0;
  std::int32_t pid = 0;
  std::uint64_t segment_bytes = 0;
  std::uint64_t block = 0;  ///< offset of the control block
};

/// One exchange, both directions at once, over a non-blocking socket that somebody else owns.
class OfferExchange {
 public:
  enum class State : unsigned char { more, done, failed };
  OfferExchange(const Offer& mine, int segment, int doorbell);
  OfferExchange(OfferExchange&&) = default;
  OfferExchange& operator=(OfferExchange&&) = default;

  State pump(int socket);
  bool wants_write() const noexcept { return sent_ < sizeof(Offer); }
  /// After done. Not yet trusted: the descriptors and numbers are what the peer sent.
  Offer theirs() const noexcept;
  Fd take_segment() noexcept { return std::move(fds_[0]); }
  Fd take_doorbell() noexcept { return std::move(fds_[1]); }
  const std::string& reason() const noexcept { return reason_; }

 private:
  State send(int socket);
  State receive(int socket);
  State fail(std::string reason);

  std::array<std::byte, sizeof(Offer)> out_{}, in_{};
  std::array<int, 2> send_fds_;
  std::size_t sent_ = 0, got_ = 0, got_fds_ = 0;
  std::array<Fd, 2> fds_;
  std::string reason_;
};

}  // namespace unisono::transport::shm
