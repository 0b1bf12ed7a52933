/// What bare sockets give an all_reduce of several ranks on this host: processes that are connected each with each send what its messages would
/// be, and nothing else: no sums, no headers, no errors. Three patterns, which all send the fewest bytes that an all_reduce can, 2 (n-1) S in all:
///
///   direct   blocks straight to their owners, and back
///   halving  half of what is left to a partner at distance n/2, n/4 ..., and back (recursive halving and doubling)
///   tree     up a binomial tree, and down
///
/// usage: tcp_mesh SECONDS RANKS BYTES...     RANKS a power of two, at most 16
/// prints a line of JSON for every size: the fastest pattern's median over rounds, of rank 0.

#include <netinet/tcp.h>
#include <sched.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "sockets.h"

namespace {

constexpr int kWarm = 3, kFewest = 9, kMost = 16;

using Clock = std::chrono::steady_clock;
using Mesh = std::array<int, kMost>;  ///< a rank's connections, by peer

/// What goes to and comes from one peer in a step.
struct Transfer {
  int fd;
  std::size_t to_send, to_get;
};

class Rank {
 public:
  Rank(int rank, int ranks, Mesh mesh, std::size_t bytes)
      : rank_(rank), ranks_(ranks), mesh_(mesh), out_(bytes, 1), in_(bytes) {}

  void direct() {
    for (int phase = 0; phase < 2; phase++) {
      std::vector<Transfer> all;
      for (int i = 1; i < ranks_; i++) all.push_back(both(rank_ ^ i, out_.size() / static_cast<std::size_t>(ranks_)));
      step(all);
    }
  }
  void halving() {
    std::size_t bytes = out_.size();
    for (int distance = ranks_ / 2; distance > 0; distance /= 2) step({both(rank_ ^ distance, bytes /= 2)});
    for (int distance = 1; distance < ranks_; distance *= 2, bytes *= 2) step({both(rank_ ^ distance, bytes)});
  }
  void tree() {
    int distance = 1;
    for (; distance < ranks_ && (rank_ & distance) == 0; distance *= 2)
      if (rank_ + distance < ranks_) step({{fd(rank_ + distance), 0, out_.size()}});
    if (rank_ != 0) step({{fd(rank_ - distance), out_.size(), 0}}), step({{fd(rank_ - distance), 0, out_.size()}});
    for (distance /= 2; distance > 0; distance /= 2)
      if (rank_ + distance < ranks_) step({{fd(rank_ + distance), out_.size(), 0}});
  }

  /// Microseconds; rank 0 says with a byte to everybody whether there is another round.
  double time(void (Rank::*pattern)(), double budget) {
    std::vector<double> times;
    const auto begin = Clock::now();
    for (int round = 0;; round++) {
      const auto start = Clock::now();
      (this->*pattern)();
      const std::chrono::duration<double, std::micro> took = Clock::now() - start;
      if (round >= kWarm) times.push_back(took.count());
      const bool enough =
          round >= kWarm + kFewest && std::chrono::duration<double>(Clock::now() - begin).count() > budget;
      if (!go_on(!enough)) break;
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    calls_ = times.size();
    return times[times.size() / 2];
  }
  std::size_t calls() const { return calls_; }

 private:
  int fd(int peer) const { return mesh_[static_cast<std::size_t>(peer)]; }
  Transfer both(int peer, std::size_t bytes) const { return {fd(peer), bytes, bytes}; }

  /// Both directions of all until all are done. Ranks may be more than cores: who finds nothing to do makes room.
  void step(std::vector<Transfer> all) {
    for (bool done = false; !done;) {
      bool moved = false;
      done = true;
      for (Transfer& t : all) {
        if (t.to_send > 0) t.to_send -= count(::send(t.fd, out_.data(), t.to_send, MSG_NOSIGNAL | MSG_DONTWAIT), moved);
        if (t.to_get > 0) t.to_get -= count(::recv(t.fd, in_.data(), t.to_get, MSG_DONTWAIT), moved);
        done = done && t.to_send == 0 && t.to_get == 0;
      }
      if (!done && !moved) ::sched_yield();
    }
  }
  static std::size_t count(ssize_t n, bool& moved) {
    if (n == 0) std::exit(1);
    if (n < 0 && errno != EAGAIN) die("send or recv");
    moved |= n > 0;
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  bool go_on(bool mine) {
    if (rank_ != 0) {
      out_.front() = 0;
      step({{fd(0), 0, 1}});
      return in_.front() == 1;
    }
    out_.front() = mine ? 1 : 0;
    for (int q = 1; q < ranks_; q++) step({{fd(q), 1, 0}});
    return mine;
  }

  int rank_, ranks_;
  Mesh mesh_;
  std::vector<char> out_, in_;
  std::size_t calls_ = 0;
};

std::pair<int, int> connected() {
  sockaddr_in address = address_of("127.0.0.1", 0);
  const int listener = listen_at(address), one = 1;
  const int first = call(address), second = ::accept(listener, nullptr, nullptr);
  if (second < 0) die("accept");
  ::close(listener);
  for (const int fd : {first, second}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return {first, second};
}

}  // namespace

int main(int argc, char** argv) {
  const int ranks = argc > 3 ? std::atoi(argv[2]) : 0;
  if (ranks < 2 || ranks > kMost || (ranks & (ranks - 1)) != 0) {
    std::fprintf(stderr, "usage: tcp_mesh SECONDS RANKS BYTES... (RANKS: 2, 4, 8, 16)\n");
    return 2;
  }
  std::vector<Mesh> mesh(static_cast<std::size_t>(ranks));
  for (std::size_t a = 0; a < mesh.size(); a++)
    for (std::size_t b = a + 1; b < mesh.size(); b++) std::tie(mesh[a][b], mesh[b][a]) = connected();
  int rank = 0;
  for (int r = 1; r < ranks && rank == 0; r++)
    if (::fork() == 0) rank = r;
  for (int i = 3; i < argc; i++) {
    const auto bytes = static_cast<std::size_t>(std::atoll(argv[i]));
    Rank mine(rank, ranks, mesh[static_cast<std::size_t>(rank)], bytes);
    double best = 0;
    std::size_t calls = 0;
    for (const auto pattern : {&Rank::direct, &Rank::halving, &Rank::tree})
      if (const double us = mine.time(pattern, std::atof(argv[1])); best == 0 || us < best)
        best = us, calls = mine.calls();
    if (rank == 0)
      std::printf("{\"bytes\": %zu, \"ranks\": %d, \"time_us\": %.2f, \"calls\": %zu}\n", bytes, ranks, best, calls);
  }
  if (rank != 0) return 0;
  std::fflush(stdout);
  for (int r = 1; r < ranks; r++) ::wait(nullptr);
}
