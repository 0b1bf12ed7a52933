#pragma once
/// The two primitives of the handshake, over OpenSSL.

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace unisono::rendezvous {

using Digest = std::array<std::byte, 32>;

Digest sha256(std::span<const std::byte> data);
Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> data);
/// In time that does not depend on where they differ.
bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) noexcept;

/// 128 bits of the SHA-256 of `text`, as 32 hexadecimal digits: for names that must be short.
std::string short_hash(std::string_view text);

}  // namespace unisono::rendezvous
