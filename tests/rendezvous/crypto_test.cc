/// Our SHA-256 and HMAC beside OpenSSL's EVP and HMAC, and the digest of the standard's example.

#include "rendezvous/crypto.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <string>
#include <vector>

namespace unisono::rendezvous {
namespace {

/// Bytes that no other length begins with.
std::vector<std::byte> bytes(std::size_t count) {
  std::vector<std::byte> all(count);
  for (std::size_t i = 0; i < count; i++) all[i] = static_cast<std::byte>((i * 131 + count) & 0xff);
  return all;
}

const unsigned char* raw(const std::vector<std::byte>& data) {
  static constexpr unsigned char kNone = 0;  // null is "the key of the last call" to OpenSSL
  return data.empty() ? &kNone : reinterpret_cast<const unsigned char*>(data.data());
}

TEST(Crypto, TheStandardsExample) { EXPECT_EQ(short_hash("abc"), "ba7816bf8f01cfea414140de5dae2223"); }

TEST(Crypto, DigestsAreOpenSSLs) {
  for (std::size_t n = 0; n < 300; n++) {
    Digest expected{};
    ASSERT_EQ(
        EVP_Digest(raw(bytes(n)), n, reinterpret_cast<unsigned char*>(expected.data()), nullptr, EVP_sha256(), nullptr),
        1);
    EXPECT_EQ(sha256(bytes(n)), expected) << n << " bytes";
  }
}

/// Keys shorter than a block, of a block, and longer ones, which count as their digest.
TEST(Crypto, AuthenticationCodesAreOpenSSLs) {
  for (const std::size_t key : {0, 1, 31, 32, 33, 63, 64, 65, 128, 200})
    for (const std::size_t n : {0, 1, 55, 56, 63, 64, 65, 500}) {
      const auto k = bytes(key), data = bytes(n);
      Digest expected{};
      ASSERT_NE(HMAC(EVP_sha256(), raw(k), static_cast<int>(key), raw(data), n,
                     reinterpret_cast<unsigned char*>(expected.data()), nullptr),
                nullptr);
      EXPECT_EQ(hmac_sha256(k, data), expected) << "key of " << key << " bytes, data of " << n;
    }
}

TEST(Crypto, EqualityLooksAtAll) {
  auto a = bytes(32), b = a;
  EXPECT_TRUE(equal_in_constant_time(a, b));
  b.back() ^= std::byte{1};
  EXPECT_FALSE(equal_in_constant_time(a, b));
  b.pop_back();
  EXPECT_FALSE(equal_in_constant_time(a, b));
}

}  // namespace
}  // namespace unisono::rendezvous
