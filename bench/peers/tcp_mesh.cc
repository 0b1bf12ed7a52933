/// What bare sockets give an all_reduce of several ranks on this host: processes that are connected each with each send what its messages would
/// be, from and to where its blocks would lie, and nothing else: no headers, no errors, and sums only when they are asked for. Three patterns,
/// which all send the fewest bytes that an all_reduce can, 2 (n-1) S in all:
///
///   direct   blocks straight to their owners, and back
///   halving  half of what is left to a partner at distance n/2, n/4 ..., and back (recursive halving and doubling)
///   tree     up a binomial tree, and down
///
/// usage: tcp_mesh [--sums] SECONDS RANKS BYTES...     RANKS a power of two, at most 16; --sums: f32 are added up as they come
/// prints a line of JSON for every size: the fastest pattern's median over rounds, of rank 0.

#include <netinet/tcp.h>
#include <sched.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "sockets.h"

namespace {

constexpr int kWarm = 3, kFewest = 9, kMost = 16;

using Clock = std::chrono::steady_clock;
using Mesh = std::array<int, kMost>;  ///< a rank's connections, by peer

/// What goes to and comes from one peer in a step; offsets in the vector. What is to be added comes to `spare` first.
struct Transfer {
  int fd;
  std::size_t from, to_send, to, to_get;
  std::optional<std::size_t> spare{};
};

class Rank {
 public:
  Rank(int rank, int ranks, Mesh mesh, std::size_t bytes, bool sums)
      : rank_(rank),
        ranks_(ranks),
        mesh_(mesh),
        sums_(sums),
        vector_(bytes / sizeof(float), 1),
        spare_(vector_.size()) {}

  void direct() {
    const std::size_t block = size() / static_cast<std::size_t>(ranks_);
    std::vector<Transfer> in, out;
    for (int i = 1; i < ranks_; i++) {
      const int peer = rank_ ^ i;
      in.push_back({fd(peer), block * number(peer), block, block * number(rank_), block, block * number(i - 1)});
      out.push_back({fd(peer), block * number(rank_), block, block * number(peer), block});
    }
    step(in), step(out);
  }
  void halving() {
    std::size_t bytes = size(), at = 0;
    for (int distance = ranks_ / 2; distance > 0; distance /= 2) {
      bytes /= 2;
      const std::size_t upper = at + bytes, mine = (rank_ & distance) != 0 ? upper : at;
      step({{fd(rank_ ^ distance), at + upper - mine, bytes, mine, bytes, mine}});
      at = mine;
    }
    for (int distance = 1; distance < ranks_; distance *= 2, bytes *= 2) {
      const std::size_t other = (rank_ & distance) != 0 ? at - bytes : at + bytes;
      step({{fd(rank_ ^ distance), at, bytes, other, bytes}});
      at = std::min(at, other);
    }
  }
  void tree() {
    int distance = 1;
    for (; distance < ranks_ && (rank_ & distance) == 0; distance *= 2)
      if (rank_ + distance < ranks_) step({{fd(rank_ + distance), 0, 0, 0, size(), 0}});
    if (rank_ != 0) step({{fd(rank_ - distance), 0, size(), 0, 0}}), step({{fd(rank_ - distance), 0, 0, 0, size()}});
    for (distance /= 2; distance > 0; distance /= 2)
      if (rank_ + distance < ranks_) step({{fd(rank_ + distance), 0, size(), 0, 0}});
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
  static std::size_t number(int i) { return static_cast<std::size_t>(i); }
  std::size_t size() const { return vector_.size() * sizeof(float); }
  static char* at(std::vector<float>& where, std::size_t offset) {
    return reinterpret_cast<char*>(where.data()) + offset;
  }

  /// Both directions of all until all are done. Ranks may be more than cores: who finds nothing to do makes room.
  void step(std::vector<Transfer> all) {
    for (bool done = false; !done;) {
      bool moved = false;
      done = true;
      for (Transfer& t : all) {
        if (t.to_send > 0) {
          const std::size_t n = count(::send(t.fd, at(vector_, t.from), t.to_send, MSG_NOSIGNAL | MSG_DONTWAIT), moved);
          t.from += n, t.to_send -= n;
        }
        if (t.to_get > 0) get(t, moved);
        done = done && t.to_send == 0 && t.to_get == 0;
      }
      if (!done && !moved) ::sched_yield();
    }
  }
  void get(Transfer& t, bool& moved) {
    constexpr std::size_t kPiece = 64 << 10;  // is added while it lies in the caches
    const bool adds = t.spare.has_value();
    char* const to = adds ? at(spare_, *t.spare) : at(vector_, t.to);
    const std::size_t room = adds && sums_ ? std::min(t.to_get, kPiece) : t.to_get;
    const std::size_t n = count(::recv(t.fd, to, room, MSG_DONTWAIT), moved);
    if (adds && sums_) {
      const std::size_t begin = t.to / sizeof(float), end = (t.to + n) / sizeof(float), from = *t.spare / sizeof(float);
      for (std::size_t i = begin; i < end; i++) vector_[i] += spare_[from + i - begin];
    }
    if (adds) *t.spare += n;
    t.to += n, t.to_get -= n;
  }
  static std::size_t count(ssize_t n, bool& moved) {
    if (n == 0) std::exit(1);
    if (n < 0 && errno != EAGAIN) die("send or recv");
    moved |= n > 0;
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }
  /// Awake, as in the rounds: a rank that has to be woken would begin the next one late.
  bool go_on(bool mine) {
    char byte = mine ? 1 : 0;
    for (int q = 1; q < ranks_ && rank_ == 0; q++)
      repeat([&] { return ::send(fd(q), &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT); });
    if (rank_ != 0) repeat([&] { return ::recv(fd(0), &byte, 1, MSG_DONTWAIT); });
    return byte == 1;
  }
  template <class Call>
  static void repeat(Call&& call) {
    for (bool moved = false; count(call(), moved) == 0;) ::sched_yield();
  }

  int rank_, ranks_;
  Mesh mesh_;
  bool sums_;
  std::vector<float> vector_, spare_;
  std::size_t calls_ = 0;
};

std::pair<int, int> connected() {
  sockaddr_in address = address_of("127.0.0.1", 0);
  const int listener = listen_at(address, Pace::none), one = 1;
  const int first = call(address, Pace::none), second = ::accept(listener, nullptr, nullptr);
  if (second < 0) die("accept");
  ::close(listener);
  for (const int fd : {first, second}) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return {first, second};
}

}  // namespace

int main(int argc, char** argv) {
  const bool sums = argc > 1 && std::string(argv[1]) == "--sums";
  if (sums) argv++, argc--;
  const int ranks = argc > 3 ? std::atoi(argv[2]) : 0;
  if (ranks < 2 || ranks > kMost || (ranks & (ranks - 1)) != 0) {
    std::fprintf(stderr, "usage: tcp_mesh [--sums] SECONDS RANKS BYTES... (RANKS: 2, 4, 8, 16)\n");
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
    Rank mine(rank, ranks, mesh[static_cast<std::size_t>(rank)], bytes, sums);
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
