#pragma once
/// One participant of a transport test: a poller, a transport, and a loop that sleeps as the engine does.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "password_handshake.h"
#include "transport/transports.h"

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define UNISONO_SLOW_BUILD 1
#endif

namespace unisono::transport::test {

using namespace std::chrono_literals;

#ifdef UNISONO_SLOW_BUILD
inline constexpr int kSlow = 10;
#else
inline constexpr int kSlow = 1;
#endif

/// Links that are descriptors are watched as the engine watches them.
class Site {
 public:
  Site(std::unique_ptr<Poller> poller_, std::unique_ptr<Transport> transport_, PeerId self_)
      : poller(std::move(poller_)), transport(std::move(transport_)), self(self_) {
    transport->attach(*poller);
  }
  ~Site() {
    ups.clear();
    transport.reset();
  }

  TimePoint now() const { return clock.now() + skew; }

  void pump() {
    std::vector<Event> events;
    transport->poll(now(), events);
    for (auto& event : events) {
      switch (event.kind) {
        case Event::Kind::up:
          if (event.link->fd() >= 0) poller->add(event.link->fd());
          ups.push_back(std::move(event));
          break;
        case Event::Kind::failed:
          failures.push_back(std::move(event));
          break;
        case Event::Kind::died:
          died.insert(event.peer);
          break;
        case Event::Kind::rejected:
          rejections.push_back(std::move(event));
          break;
      }
    }
  }

  /// Runs until `done()`; parks whenever there is nothing to do. Fails the test after `limit`. The sleep is as long as allowed: a lost
  /// wake-up shows as a timeout.
  bool until(const std::function<bool()>& done, Duration limit = 20s) {
    const TimePoint end = clock.now() + limit;
    while (true) {
      pump();
      if (done()) return true;
      poller->prepare();
      pump();
      if (done()) {
        poller->cancel();
        return true;
      }
      if (clock.now() >= end) {
        poller->cancel();
        return false;
      }
      ++parks;
      poller->wait(std::min({end, transport->next_deadline() - skew}) - clock.now());
    }
  }

  /// The same for conditions that nobody wakes us for: looks again every few milliseconds.
  bool meanwhile(const std::function<bool()>& done, Duration limit = 20s) {
    const TimePoint end = clock.now() + limit;
    while (!until(done, 2ms))
      if (clock.now() >= end) return false;
    return true;
  }

  std::unique_ptr<Link> next_link(Duration limit = 20s) {
    if (!until([&] { return !ups.empty(); }, limit)) {
      ADD_FAILURE() << "no link came up" << (failures.empty() ? "" : ": " + failures.front().status.message());
      return nullptr;
    }
    auto link = std::move(ups.front().link);
    ups.pop_front();
    return link;
  }

  void drop(std::unique_ptr<Link>& link) {
    if (link && link->fd() >= 0) poller->remove(link->fd());
    link.reset();
  }

  /// Writes everything, parking when there is no room.
  bool write_all(Link& link, std::span<const std::byte> bytes, Duration limit = 60s) {
    Io last;
    const bool done = until(
        [&] {
          while (!bytes.empty()) {
            const ConstPart part[1] = {bytes};
            last = link.write(part);
            if (last.state != Io::State::ok) return true;
            if (last.bytes == 0) break;
            bytes = bytes.subspan(last.bytes);
          }
          if (link.fd() >= 0) poller->want_write(link.fd(), !bytes.empty());
          return bytes.empty();
        },
        limit);
    EXPECT_TRUE(done) << "write stuck with " << bytes.size() << " bytes to go";
    return done && last.state == Io::State::ok;
  }

  /// Reads exactly so many bytes, parking when there are none.
  bool read_all(Link& link, std::span<std::byte> bytes, Duration limit = 60s) {
    Io last;
    const bool done = until(
        [&] {
          while (!bytes.empty()) {
            const MutablePart part[1] = {bytes};
            last = link.read(part);
            if (last.state != Io::State::ok) return true;
            if (last.bytes == 0) return false;
            bytes = bytes.subspan(last.bytes);
          }
          return true;
        },
        limit);
    EXPECT_TRUE(done) << "read stuck with " << bytes.size() << " bytes to go";
    return done && last.state == Io::State::ok;
  }

  /// Reads until the stream ends; the state it ended with.
  Io::State read_to_end(Link& link, std::vector<std::byte>& into, Duration limit = 30s) {
    Io last;
    const bool done = until(
        [&] {
          std::byte chunk[4096];
          while (true) {
            const MutablePart part[1] = {chunk};
            last = link.read(part);
            into.insert(into.end(), chunk, chunk + last.bytes);
            if (last.state != Io::State::ok) return true;
            if (last.bytes == 0) return false;
          }
        },
        limit);
    EXPECT_TRUE(done) << "the stream did not end";
    return last.state;
  }

  SteadyClock clock;
  Duration skew{0};  ///< makes time pass for the transport
  std::unique_ptr<Poller> poller;
  std::unique_ptr<Transport> transport;
  PeerId self;
  std::deque<Event> ups;
  std::vector<Event> failures, rejections;
  std::set<PeerId> died;
  std::uint64_t parks = 0;
};

inline int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += ::fcntl(fd, F_GETFD) >= 0;
  return count;
}

/// Bytes that depend on seed and position.
inline std::vector<std::byte> pattern(std::size_t n, std::uint64_t seed) {
  std::vector<std::byte> bytes(n);
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
  for (auto& byte : bytes) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    byte = static_cast<std::byte>(x);
  }
  return bytes;
}

}  // namespace unisono::transport::test
