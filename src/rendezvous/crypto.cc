// OpenSSL 3 calls these functions deprecated in favour of EVP, whose first use in a process loads the configuration and the providers: 5 million
// instructions, two fifths of all that a rank executes until its first collective. These are the same SHA-256 without that (OPENSSL_API_COMPAT, in
// CMakeLists.txt, says that we know).
#include "rendezvous/crypto.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <initializer_list>

namespace unisono::rendezvous {
namespace {

/// Of all of them, one behind the other.
Digest hash(std::initializer_list<std::span<const std::byte>> parts) {
  Digest digest{};
  SHA256_CTX context;
  SHA256_Init(&context);
  for (const std::span<const std::byte> part : parts) SHA256_Update(&context, part.data(), part.size());
  SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &context);
  OPENSSL_cleanse(&context, sizeof context);
  return digest;
}

}  // namespace

Digest sha256(std::span<const std::byte> data) { return hash({data}); }

// RFC 2104.
Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> data) {
  std::array<std::byte, SHA256_CBLOCK> inner{}, outer{};
  if (key.size() > inner.size()) {
    const Digest digest = sha256(key);
    std::ranges::copy(digest, inner.begin());
  } else {
    std::ranges::copy(key, inner.begin());
  }
  outer = inner;
  for (std::byte& b : inner) b ^= std::byte{0x36};
  for (std::byte& b : outer) b ^= std::byte{0x5c};
  const Digest digest = hash({outer, hash({inner, data})});
  OPENSSL_cleanse(inner.data(), inner.size());
  OPENSSL_cleanse(outer.data(), outer.size());
  return digest;
}

bool equal_in_constant_time(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string short_hash(std::string_view text) {
  std::string hex;
  const Digest digest = sha256(std::as_bytes(std::span(text)));
  for (const std::byte b : std::span(digest).first(16))
    fmt::format_to(std::back_inserter(hex), "{:02x}", static_cast<unsigned>(b));
  return hex;
}

}  // namespace unisono::rendezvous
