/// Whether io_uring moves bytes through a TCP socket faster than send(), recv() and poll() do. Both in one run, by turns: a two-way exchange of BYTES
/// (as tcp_exchange has it), and a ping-pong of 64 KiB. The ring is used as it is fastest: one submission and one wait per call into the kernel,
/// whole buffers (MSG_WAITALL), completions run by the thread that waits; `zerocopy` sends with SEND_ZC.
///
/// usage: uring_exchange ROUNDS BYTES                        both sides here, over loopback
///        uring_exchange ROUNDS BYTES serve ADDRESS PORT     one side, waiting
///        uring_exchange ROUNDS BYTES call ADDRESS PORT      the other side
/// prints (the side that waits) a line of JSON for each: medians of time and of this process's processor time.

#include <arpa/inet.h>
#include <linux/io_uring.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "sockets.h"

namespace {

constexpr std::size_t kBall = 64 << 10;
constexpr int kWarm = 3, kPings = 200;
using Clock = std::chrono::steady_clock;

template <class T>
T* at(void* base, std::uint32_t offset) {
  return reinterpret_cast<T*>(static_cast<char*>(base) + offset);
}

/// The least of a ring that one thread needs.
class Ring {
 public:
  Ring() {
    io_uring_params p{};
    p.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
    fd_ = static_cast<int>(::syscall(__NR_io_uring_setup, 64, &p));
    if (fd_ < 0) die("io_uring_setup");
    const std::size_t bytes = std::max(p.sq_off.array + p.sq_entries * sizeof(std::uint32_t),
                                       p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe));
    void* rings = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, IORING_OFF_SQ_RING);
    void* entries = ::mmap(nullptr, p.sq_entries * sizeof(io_uring_sqe), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_POPULATE, fd_, IORING_OFF_SQES);
    if (rings == MAP_FAILED || entries == MAP_FAILED) die("mmap");
    sqes_ = static_cast<io_uring_sqe*>(entries);
    sq_tail_ = at<std::uint32_t>(rings, p.sq_off.tail);
    sq_mask_ = *at<std::uint32_t>(rings, p.sq_off.ring_mask);
    sq_array_ = at<std::uint32_t>(rings, p.sq_off.array);
    cq_head_ = at<std::uint32_t>(rings, p.cq_off.head);
    cq_tail_ = at<std::uint32_t>(rings, p.cq_off.tail);
    cq_mask_ = *at<std::uint32_t>(rings, p.cq_off.ring_mask);
    cqes_ = at<io_uring_cqe>(rings, p.cq_off.cqes);
  }

  void add(std::uint8_t opcode, int fd, const void* data, std::size_t bytes) {
    const std::uint32_t tail = *sq_tail_, slot = tail & sq_mask_;
    io_uring_sqe& e = sqes_[slot];
    std::memset(&e, 0, sizeof e);
    e.opcode = opcode;
    e.fd = fd;
    e.addr = reinterpret_cast<std::uint64_t>(data);
    e.len = static_cast<std::uint32_t>(bytes);
    e.msg_flags = MSG_WAITALL | MSG_NOSIGNAL;
    e.user_data = opcode;
    sq_array_[slot] = slot;
    std::atomic_ref(*sq_tail_).store(tail + 1, std::memory_order_release);
    added_++;
  }
  /// Hands over what was added and waits for a completion.
  io_uring_cqe wait() {
    std::uint32_t head = *cq_head_;
    while (added_ > 0 || head == std::atomic_ref(*cq_tail_).load(std::memory_order_acquire)) {
      const long n = ::syscall(__NR_io_uring_enter, fd_, added_, 1, IORING_ENTER_GETEVENTS, nullptr, 0);
      if (n < 0 && errno != EINTR) die("io_uring_enter");
      if (n > 0) added_ -= static_cast<unsigned>(n);
    }
    const io_uring_cqe e = cqes_[head & cq_mask_];
    std::atomic_ref(*cq_head_).store(head + 1, std::memory_order_release);
    return e;
  }

 private:
  int fd_;
  io_uring_sqe* sqes_;
  io_uring_cqe* cqes_;
  std::uint32_t *sq_tail_, *sq_array_, *cq_head_, *cq_tail_;
  std::uint32_t sq_mask_, cq_mask_;
  unsigned added_ = 0;
};

enum class Way { calls, ring, zerocopy };
constexpr Way kWays[] = {Way::calls, Way::ring, Way::zerocopy};
constexpr const char* kNames[] = {"calls", "ring", "zerocopy"};

/// exchange() with a ring: one request each way for all that is left.
void with_ring(Ring& ring, Way way, int fd, const char* out, std::size_t to_send, char* in, std::size_t to_get) {
  const std::uint8_t send = way == Way::zerocopy ? IORING_OP_SEND_ZC : IORING_OP_SEND;
  std::size_t sent = 0, got = 0;
  int notices = 0;  // a zero-copy send completes twice: when it is sent, and when the memory is free
  if (to_send > 0) ring.add(send, fd, out, to_send);
  if (to_get > 0) ring.add(IORING_OP_RECV, fd, in, to_get);
  while (sent < to_send || got < to_get || notices > 0) {
    const io_uring_cqe e = ring.wait();
    if ((e.flags & IORING_CQE_F_NOTIF) != 0) {
      notices--;
      continue;
    }
    if (e.res <= 0) {
      errno = -e.res;
      die("a request of the ring");
    }
    notices += (e.flags & IORING_CQE_F_MORE) != 0;
    if (e.user_data == IORING_OP_RECV) {
      got += static_cast<std::size_t>(e.res);
      if (got < to_get) ring.add(IORING_OP_RECV, fd, in + got, to_get - got);
    } else {
      sent += static_cast<std::size_t>(e.res);
      if (sent < to_send) ring.add(send, fd, out + sent, to_send - sent);
    }
  }
}

double processor_us() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  const auto us = [](const timeval& t) { return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec); };
  return us(use.ru_utime) + us(use.ru_stime);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void run(int fd, int rounds, std::size_t bytes, bool reports) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  Ring ring;
  std::vector<char> out(bytes, 1), in(bytes);
  std::vector<double> times[2][3], busy[2][3];
  const auto move = [&](Way way, std::size_t to_send, std::size_t to_get) {
    if (way == Way::calls)
      exchange(fd, out.data(), to_send, in.data(), to_get);
    else
      with_ring(ring, way, fd, out.data(), to_send, in.data(), to_get);
  };
  for (int round = 0; round < kWarm + rounds; round++)
    for (const int kind : {0, 1})
      for (const Way way : kWays) {
        const double before = processor_us();
        const auto start = Clock::now();
        if (kind == 0) move(way, bytes, bytes);
        for (int i = 0; kind == 1 && i < kPings; i++) {
          move(way, reports ? kBall : 0, reports ? 0 : kBall);
          move(way, reports ? 0 : kBall, reports ? kBall : 0);
        }
        const double us = std::chrono::duration<double, std::micro>(Clock::now() - start).count();
        if (round < kWarm) continue;
        const double each = kind == 0 ? 1 : 2 * kPings;
        times[kind][static_cast<int>(way)].push_back(us / each);
        busy[kind][static_cast<int>(way)].push_back((processor_us() - before) / each);
      }
  for (const int kind : {0, 1})
    for (const Way way : kWays)
      if (const int w = static_cast<int>(way); reports)
        std::printf("{\"what\": \"%s\", \"way\": \"%s\", \"bytes\": %zu, \"time_us\": %.1f, \"processor_us\": %.1f}\n",
                    kind == 0 ? "exchange" : "ping-pong", kNames[w], kind == 0 ? bytes : kBall, median(times[kind][w]),
                    median(busy[kind][w]));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 6)
    return std::fprintf(stderr, "usage: uring_exchange ROUNDS BYTES [serve|call ADDRESS PORT]\n"), 2;
  const int rounds = std::atoi(argv[1]);
  const std::size_t bytes = std::strtoull(argv[2], nullptr, 10);
  sockaddr_in address = address_of(argc == 6 ? argv[4] : "127.0.0.1", argc == 6 ? std::atoi(argv[5]) : 0);
  if (argc == 6 && std::string(argv[3]) == "call") return run(call(address), rounds, bytes, false), 0;
  const int listener = listen_at(address);
  const pid_t child = argc == 6 ? 1 : ::fork();
  if (child == 0) return run(call(address), rounds, bytes, false), 0;
  run(::accept(listener, nullptr, nullptr), rounds, bytes, true);
  int status = 0;
  return argc == 6 || (::waitpid(child, &status, 0) == child && status == 0) ? 0 : 1;
}
