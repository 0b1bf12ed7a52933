#include "rendezvous/crypto.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <stdexcept>

namespace unisono::rendezvous {
namespace {
const unsigned char* raw(std::span<const std::byte> data) {
  return reinterpret_cast<const unsigned char*>(data.data());
}
}  // namespace

Digest sha256(std::span<const std::byte> data) {
  Digest digest{};
  // Fails only when OpenSSL cannot allocate or its configuration has no SHA-256: nothing can be authenticated then.
  if (EVP_Digest(raw(data), data.size(), reinterpret_cast<unsigned char*>(digest.data()), nullptr, EVP_sha256(),
                 nullptr) != 1)
    throw std::runtime_error("OpenSSL refuses to compute SHA-256");
  return digest;
}

Digest hmac_sha256(std::span<const std::byte> key, std::span<const std::byte> data) {
  Digest digest{};
  // A null key means "the key of the last call" to OpenSSL; an empty key must not be null.
  static constexpr unsigned char kEmpty = 0;
  if (HMAC(EVP_sha256(), key.empty() ? &kEmpty : raw(key), static_cast<int>(key.size()), raw(data), data.size(),
           reinterpret_cast<unsigned char*>(digest.data()), nullptr) == nullptr)
    throw std::runtime_error("OpenSSL refuses to compute HMAC-SHA256");
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
