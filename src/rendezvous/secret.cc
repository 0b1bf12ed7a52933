#include "rendezvous/secret.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace unisono::rendezvous {
namespace {

constexpr std::size_t kMinimumBytes = 16;
constexpr std::size_t kGeneratedBytes = 32;

int digit_value(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string_view without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

}  // namespace

void Secret::wipe() noexcept {
  if (!bytes_.empty()) ::explicit_bzero(bytes_.data(), bytes_.size());
  bytes_.clear();
}

Secret::~Secret() { wipe(); }

Secret& Secret::operator=(const Secret& other) {
  if (this != &other) {
    wipe();  // before the vector may move to other memory
    bytes_ = other.bytes_;
  }
  return *this;
}

Secret::Secret(Secret&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Secret& Secret::operator=(Secret&& other) noexcept {
  if (this != &other) {
    wipe();
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

Result<Secret> Secret::parse(std::string_view hex) {
  hex = without_blanks(hex);
  Secret secret;
  secret.bytes_.reserve(hex.size() / 2);
  for (std::size_t i = 0; i < hex.size(); i++)
    if (digit_value(hex[i]) < 0)
      return Status::invalid(
          fmt::format("character {} of the job secret is not a hexadecimal digit; make one with "
                      "`openssl rand -hex 32`",
                      i + 1));
  if (hex.size() % 2 != 0)
    return Status::invalid(
        fmt::format("the job secret has {} hexadecimal digits, an odd number: it was cut", hex.size()));
  for (std::size_t i = 0; i < hex.size(); i += 2)
    secret.bytes_.push_back(static_cast<std::byte>(digit_value(hex[i]) * 16 + digit_value(hex[i + 1])));
  if (!secret.empty() && secret.bytes_.size() < kMinimumBytes)
    return Status::invalid(
        fmt::format("the job secret has {} hexadecimal digits; at least {} are needed, make one with "
                    "`openssl rand -hex 32`",
                    hex.size(), 2 * kMinimumBytes));
  return secret;
}

Result<Secret> Secret::generate() {
  Secret secret;
  secret.bytes_.resize(kGeneratedBytes);
  if (::getentropy(secret.bytes_.data(), secret.bytes_.size()) != 0)
    return Status::system("the kernel gives no random bytes for a job secret", errno);
  return secret;
}

std::string Secret::reveal() const {
  std::string text;
  text.reserve(2 * bytes_.size());
  for (const std::byte b : bytes_) fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<unsigned>(b));
  return text;
}

}  // namespace unisono::rendezvous
