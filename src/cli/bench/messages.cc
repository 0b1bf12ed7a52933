#include "cli/bench/messages.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

namespace unisono::cli {
namespace {

using MessageClock = std::chrono::steady_clock;

/// The two ends, and what goes between them.
class Exchange {
 public:
  Exchange(const Group& group, std::int64_t bytes, std::int64_t window, BenchMemory& memory)
      : group_(group), bytes_(static_cast<std::size_t>(bytes)), window_(window), memory_(memory) {
    const std::size_t all = bytes_ * static_cast<std::size_t>(window_);
    memory_.reserve(all, all);
    constexpr int kAnything = 0x3f;  // as prepare()
    std::memset(memory_.input(), kAnything, all);
    std::memset(memory_.output(), kAnything, all);
  }

  bool takes_part() const { return group_.rank() == 0 || group_.rank() == last(); }

  /// A message there, and one back.
  void ping_pong() {
    if (group_.rank() == 0) {
      group_.send(outgoing(0), last());
      group_.recv(incoming(0), last());
    } else {
      group_.recv(incoming(0), 0);
      group_.send(outgoing(0), 0);
    }
  }

  /// All of the window there, and an empty message back.
  void stream() {
    std::vector<Work> works;
    for (std::int64_t i = 0; i < window_; i++)
      works.push_back(group_.rank() == 0 ? group_.isend(outgoing(i), last()) : group_.irecv(incoming(i), 0));
    for (const Work& work : works) work.wait();
    if (group_.rank() == 0)
      group_.recv(std::span<std::byte>(), last());
    else
      group_.send(std::span<const std::byte>(), 0);
  }

  /// Bytes that the messages of one more exchange bring wrongly, at both ends.
  std::int64_t wrong_bytes(bool both_ways) {
    std::int64_t wrong = 0;
    if (takes_part()) {
      constexpr int kGarbage = 0x5a;
      std::memset(memory_.output(), kGarbage, bytes_ * static_cast<std::size_t>(window_));
      for (std::int64_t i = 0; i < window_; i++)
        for (std::size_t j = 0; j < bytes_; j++) memory_.input()[at(i) + j] = value(group_.rank(), i, j);
      both_ways ? ping_pong() : stream();
      const int from = group_.rank() == 0 ? last() : 0;
      if (both_ways || group_.rank() != 0)
        for (std::int64_t i = 0; i < window_; i++)
          for (std::size_t j = 0; j < bytes_; j++) wrong += memory_.output()[at(i) + j] != value(from, i, j);
    }
    group_.all_reduce(std::span<std::int64_t>(&wrong, 1));
    return wrong;
  }

 private:
  int last() const { return group_.size() - 1; }
  std::size_t at(std::int64_t message) const { return bytes_ * static_cast<std::size_t>(message); }
  std::span<const std::byte> outgoing(std::int64_t i) const { return {memory_.input() + at(i), bytes_}; }
  std::span<std::byte> incoming(std::int64_t i) const { return {memory_.output() + at(i), bytes_}; }
  /// Byte `j` of the sender's message `i`.
  static std::byte value(int sender, std::int64_t i, std::size_t j) {
    constexpr std::size_t kOfSender = 101, kOfMessage = 37, kOfByte = 11, kOfPage = 5;
    return static_cast<std::byte>(static_cast<std::size_t>(sender) * kOfSender +
                                  static_cast<std::size_t>(i) * kOfMessage + j * kOfByte + (j >> 8) * kOfPage + 1);
  }

  const Group& group_;
  std::size_t bytes_;
  std::int64_t window_;
  BenchMemory& memory_;
};

}  // namespace

std::int64_t messages_in_flight(std::int64_t bytes) noexcept {
  constexpr std::int64_t kBytes = 128 << 20, kMost = 64;  // osu_bw's window
  return std::clamp<std::int64_t>(kBytes / std::max<std::int64_t>(bytes, 1), 1, kMost);
}

Measurement measure_messages(const Group& group, const Problem& problem, BenchMode mode, const MeasureOptions& options,
                             BenchMemory& memory) {
  const std::int64_t bytes = total_bytes(problem);
  const bool both_ways = mode == BenchMode::latency;
  const std::int64_t window = both_ways ? 1 : messages_in_flight(bytes);
  Exchange exchange(group, bytes, window, memory);
  const double messages = both_ways ? 2 : static_cast<double>(window);

  const auto time_calls = [&](std::int64_t iterations) {
    std::vector<Sample> samples(static_cast<std::size_t>(iterations));
    group.barrier();
    if (!exchange.takes_part()) return samples;
    auto start = MessageClock::now();
    for (Sample& s : samples) {
      both_ways ? exchange.ping_pong() : exchange.stream();
      const auto end = MessageClock::now();
      // Rank 0 sees both ends of it; the other one's times are those of its answers.
      if (group.rank() == 0) s.seconds = std::chrono::duration<double>(end - start).count();
      start = end;
    }
    return samples;
  };
  auto samples = time_enough(group, options, time_calls);
  for (Sample& s : samples) s.seconds /= messages;
  Measurement result = slowest(group, samples);
  const auto element = static_cast<std::int64_t>(size_of(problem.dtype));
  if (options.check) result.wrong = (exchange.wrong_bytes(both_ways) + element - 1) / element;
  return result;
}

}  // namespace unisono::cli
