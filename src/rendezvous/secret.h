#pragma once
/// The secret that the members of a job share: what a connection proves to know before it carries a byte.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace unisono::rendezvous {

/// Bytes that are overwritten when they are destroyed and that nothing prints. Empty: the job has no secret.
/// Thread-safety: a value.
class Secret {
 public:
  Secret() = default;
  Secret(const Secret&) = default;
  Secret& operator=(const Secret& other);
  Secret(Secret&& other) noexcept;
  Secret& operator=(Secret&& other) noexcept;
  ~Secret();

  /// From hexadecimal digits; blanks around them are ignored, and nothing at all is the empty secret. Refuses fewer
  /// than 32 digits (128 bits): whoever can connect could guess shorter ones offline. The error does not repeat the
  /// text.
  static Result<Secret> parse(std::string_view hex);
  /// 256 bits from the kernel.
  static Result<Secret> generate();

  bool empty() const noexcept { return bytes_.empty(); }
  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// Hexadecimal digits, to hand on to a child process. Never log it.
  std::string reveal() const;

 private:
  void wipe() noexcept;
  std::vector<std::byte> bytes_;
};

}  // namespace unisono::rendezvous
