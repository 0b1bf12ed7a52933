#include "base/fd.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>

namespace unisono {
namespace {

/// A bit for each descriptor that children close. Of the process, as a pthread_atfork() handler has
/// no argument; a bit each and no lock, as a child is made in the middle of whatever other threads
/// do.
constexpr int kBits = 64, kMost = 1 << 16;
constinit std::array<std::atomic<std::uint64_t>, kMost / kBits> children_close{};

std::atomic<std::uint64_t>& word_of(int fd) noexcept { return children_close[static_cast<std::size_t>(fd / kBits)]; }
std::uint64_t bit_of(int fd) noexcept { return std::uint64_t{1} << (fd % kBits); }

void close_in_child() noexcept {
  for (int first = 0; first < kMost; first += kBits)
    for (std::uint64_t left = word_of(first).exchange(0); left != 0; left &= left - 1)
      ::close(first + std::countr_zero(left));
}

}  // namespace

Fd Fd::of_process_alone(int fd) noexcept {
  static const bool heard = ::pthread_atfork(nullptr, nullptr, [] { close_in_child(); }) == 0;
  Fd owned(fd);
  if (!heard || fd < 0 || fd >= kMost) return owned;
  word_of(fd).fetch_or(bit_of(fd));
  owned.alone_ = true;
  return owned;
}

bool Fd::disown() noexcept {
  alone_ = false;
  return (word_of(fd_).fetch_and(~bit_of(fd_)) & bit_of(fd_)) != 0;
}

}  // namespace unisono
