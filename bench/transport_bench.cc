/// Two ranks as threads over inproc (the code of shared memory) and tcp on 127.0.0.1: the time of a ping-pong and the bandwidth of a stream.

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "transport/transports.h"

namespace unisono::transport {
namespace {

/// Says its name and believes the other's: a benchmark has no strangers.
class NameOnly final : public Handshake {
 public:
  explicit NameOnly(PeerId self) : self_(self) {}
  std::vector<std::byte> take_output() override {
    std::vector<std::byte> out;
    if (!std::exchange(said_, true)) {
      const auto* bytes = reinterpret_cast<const std::byte*>(&self_);
      out.assign(bytes, bytes + sizeof self_);
    }
    return out;
  }
  State feed(std::span<const std::byte> input, std::size_t& consumed) override {
    if (input.size() < sizeof peer_) return State::more;
    std::memcpy(&peer_, input.data(), sizeof peer_);
    consumed = sizeof peer_;
    return State::done;
  }
  PeerId peer() const override { return peer_; }
  std::string reason() const override { return {}; }

 private:
  PeerId self_, peer_;
  bool said_ = false;
};

class NameOnlyFactory final : public HandshakeFactory {
 public:
  explicit NameOnlyFactory(PeerId self) : self_(self) {}
  std::unique_ptr<Handshake> dial(const PeerId&) override { return std::make_unique<NameOnly>(self_); }
  std::unique_ptr<Handshake> accept() override { return std::make_unique<NameOnly>(self_); }

 private:
  PeerId self_;
};

struct Rank {
  std::unique_ptr<Poller> poller = make_epoll_poller();
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Link> link;
};

/// Two ranks with a link between them.
struct Pair {
  explicit Pair(bool tcp) : hub(InprocHub::create()) {
    for (int i = 0; i < 2; ++i) {
      Setup setup;
      setup.self = {7, static_cast<std::uint64_t>(i)};
      setup.handshake = std::make_shared<NameOnlyFactory>(setup.self);
      setup.interface_addresses = {"127.0.0.1"};
      auto made = tcp ? find_transport("tcp")->make(setup, *ranks[i].poller) : hub->make(setup, *ranks[i].poller);
      ranks[i].transport = value_or_throw(std::move(made));
    }
    const SteadyClock clock;
    ranks[0].transport->dial({7, 1}, ranks[1].transport->address(), TimePoint::max());
    while (!ranks[0].link || !ranks[1].link) {
      for (auto& rank : ranks) {
        std::vector<Event> events;
        rank.transport->poll(clock.now(), events);
        for (auto& event : events) rank.link = std::move(event.link);
      }
    }
  }
  std::shared_ptr<InprocHub> hub;
  Rank ranks[2];
};

/// Spins for `spins` rounds, then gives the core away: with two ranks on few cores the other needs it.
template <class Step>
bool move_all(std::size_t bytes, const std::atomic<bool>& stop, Step step) {
  for (int idle = 0; bytes > 0;) {
    const Io io = step(bytes);
    if (io.state != Io::State::ok) return false;
    bytes -= io.bytes;
    idle = io.bytes > 0 ? 0 : idle + 1;
    if (idle > 100) std::this_thread::yield();
    if (idle > 0 && stop.load(std::memory_order_relaxed)) return false;
  }
  return true;
}
bool send(Link& link, std::span<const std::byte> from, const std::atomic<bool>& stop) {
  return move_all(from.size(), stop, [&](std::size_t left) {
    const ConstPart part[1] = {from.last(left)};
    return link.write(part);
  });
}
bool receive(Link& link, std::span<std::byte> to, const std::atomic<bool>& stop) {
  return move_all(to.size(), stop, [&](std::size_t left) {
    const MutablePart part[1] = {to.last(left)};
    return link.read(part);
  });
}

void ping_pong(benchmark::State& state, bool tcp) {
  Pair pair(tcp);
  std::atomic<bool> stop{false};
  std::vector<std::byte> here(static_cast<std::size_t>(state.range(0))), there(here.size());
  std::thread other([&] {
    while (receive(*pair.ranks[1].link, there, stop) && send(*pair.ranks[1].link, there, stop)) {
    }
  });
  for (auto _ : state) {
    send(*pair.ranks[0].link, here, stop);
    receive(*pair.ranks[0].link, here, stop);
  }
  stop = true;
  other.join();
}

void stream(benchmark::State& state, bool tcp) {
  Pair pair(tcp);
  std::atomic<bool> stop{false};
  std::vector<std::byte> here(static_cast<std::size_t>(state.range(0))), there(here.size());
  std::thread other([&] {
    while (receive(*pair.ranks[1].link, there, stop)) {
    }
  });
  for (auto _ : state) send(*pair.ranks[0].link, here, stop);
  stop = true;
  other.join();
  state.SetBytesProcessed(state.iterations() * state.range(0));
}

BENCHMARK_CAPTURE(ping_pong, inproc, false)->Arg(64)->Arg(4096)->Arg(65536)->UseRealTime();
BENCHMARK_CAPTURE(ping_pong, tcp, true)->Arg(64)->Arg(4096)->Arg(65536)->UseRealTime();
BENCHMARK_CAPTURE(stream, inproc, false)->Arg(4096)->Arg(262144)->Arg(1 << 22)->UseRealTime();
BENCHMARK_CAPTURE(stream, tcp, true)->Arg(4096)->Arg(262144)->Arg(1 << 22)->UseRealTime();

}  // namespace
}  // namespace unisono::transport

BENCHMARK_MAIN();
