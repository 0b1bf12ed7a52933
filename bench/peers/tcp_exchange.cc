/// What one plain socket gives: two processes send BYTES to each other at once, without a reduction: the limit of an all_reduce of two
/// ranks over tcp, which has to move as many.
///
/// usage: tcp_exchange SECONDS BYTES                        both sides here, over loopback
///        tcp_exchange SECONDS BYTES serve ADDRESS PORT     one side, waiting
///        tcp_exchange SECONDS BYTES call ADDRESS PORT      the other side
/// prints (the side that waits) a line of JSON: the median over rounds, after three warm ones.

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "sockets.h"

namespace {

constexpr int kWarm = 3, kFewest = 9;

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Rounds until `budget` is over, which the side that waits decides: the first byte of each round says whether it is the last.
void run(int fd, std::size_t bytes, double budget, bool decides) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  std::vector<char> out(bytes, 1), in(bytes);
  std::vector<double> times;
  const auto begin = Clock::now();
  for (int round = 0;; round++) {
    const bool last = round >= kWarm + kFewest && seconds_since(begin) > budget;
    out[0] = last ? 2 : 1;
    const auto start = Clock::now();
    exchange(fd, out.data(), bytes, in.data(), bytes);
    if (round >= kWarm) times.push_back(seconds_since(start));
    if (decides ? last : in[0] == 2) break;
  }
  if (!decides) return;
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  std::printf("{\"bytes\": %zu, \"ranks\": 2, \"time_us\": %.2f, \"calls\": %zu}\n", bytes,
              times[times.size() / 2] * 1e6, times.size());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 6)
    return std::fprintf(stderr, "usage: tcp_exchange SECONDS BYTES [serve|call ADDRESS PORT]\n"), 2;
  const double budget = std::atof(argv[1]);
  const std::size_t bytes = std::strtoull(argv[2], nullptr, 10);
  sockaddr_in address = address_of(argc == 6 ? argv[4] : "127.0.0.1", argc == 6 ? std::atoi(argv[5]) : 0);
  if (argc == 6 && std::string(argv[3]) == "call") return run(call(address), bytes, budget, false), 0;
  const int listener = listen_at(address);
  const pid_t child = argc == 6 ? 1 : ::fork();
  if (child == 0) return run(call(address), bytes, budget, false), 0;
  run(::accept(listener, nullptr, nullptr), bytes, budget, true);
  if (argc != 6) ::wait(nullptr);
}
