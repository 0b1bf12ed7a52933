#pragma once
/// What stands in for a unix socket between two threads: bytes for the handshake, and the memory that would travel as descriptors.

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/handshake.h"
#include "transport/greeting.h"
#include "transport/shm/channel.h"
#include "transport/shm/segment.h"

namespace unisono::transport::inproc {

class Pipe;

/// A connection request: the caller's pipe. The callee has side 1.
struct Knock {
  std::shared_ptr<Pipe> pipe;
};

/// A "process": what others may touch of it. Thread-safe.
class Node {
 public:
  Node(PeerId self, std::shared_ptr<shm::Segment> memory, std::shared_ptr<const Fd> bell)
      : id(self), segment(std::move(memory)), doorbell(std::move(bell)) {}

  const PeerId id;
  const std::shared_ptr<shm::Segment> segment;
  const std::shared_ptr<const Fd> doorbell;

  /// Something changed: poll() has work.
  void notify() noexcept;
  bool noticed() const noexcept { return notice_.load(std::memory_order_acquire); }
  bool take_notice() noexcept { return notice_.exchange(false, std::memory_order_acq_rel); }
  void knock(const Knock& knock);
  void tell_death(const PeerId& peer);
  void take(std::vector<Knock>& knocks, std::vector<PeerId>& deaths);
  bool dead() const noexcept { return dead_.load(std::memory_order_acquire); }

  /// What ends when this process is killed.
  void tie(const std::shared_ptr<Pipe>& pipe, int side, std::weak_ptr<shm::Channel> channel);
  void untie(const std::shared_ptr<Pipe>& pipe);
  void die();
  /// Its transport is destroyed: refuse whoever still knocks. Undoes the ring of references between nodes and pipes.
  void retire();

 private:
  struct Tie {
    std::shared_ptr<Pipe> pipe;
    int side;
    std::weak_ptr<shm::Channel> channel;
  };
  std::atomic<bool> notice_{true}, dead_{false};
  std::mutex mutex_;
  std::vector<Knock> knocks_;
  std::vector<PeerId> deaths_;
  std::vector<Tie> ties_;
  bool retired_ = false;
};

/// What one end gives the other after the handshake.
struct Gift {
  std::shared_ptr<shm::Segment> segment;
  std::shared_ptr<const Fd> doorbell;
  std::uint64_t block = 0;
};

/// Two ends, 0 (the caller) and 1. Thread-safe.
class Pipe {
 public:
  Pipe(std::shared_ptr<Node> caller, std::shared_ptr<Node> callee) : nodes_{std::move(caller), std::move(callee)} {}
  Io send(int side, std::span<const std::byte> bytes);
  Io peek(int side, std::span<std::byte> into);
  void consume(int side, std::size_t bytes);
  void give(int side, Gift gift);
  std::optional<Gift> take_gift(int side);
  void close(int side);
  bool peer_closed(int side);
  const std::shared_ptr<Node>& node(int side) const noexcept { return nodes_[static_cast<std::size_t>(side)]; }

 private:
  struct End {
    std::deque<std::byte> arrived;
    std::optional<Gift> gift;
    bool closed = false;
  };
  End& end(int side) noexcept { return ends_[static_cast<std::size_t>(side)]; }
  const std::array<std::shared_ptr<Node>, 2> nodes_;
  std::mutex mutex_;
  std::array<End, 2> ends_;
};

/// One end of a Pipe as the wire of a Greeting.
class PipeWire final : public Wire {
 public:
  PipeWire(Pipe& pipe, int side) : pipe_(pipe), side_(side) {}
  Io send(std::span<const std::byte> bytes) noexcept override { return pipe_.send(side_, bytes); }
  Io peek(std::span<std::byte> into) noexcept override { return pipe_.peek(side_, into); }
  void consume(std::size_t bytes) noexcept override { pipe_.consume(side_, bytes); }

 private:
  Pipe& pipe_;
  int side_;
};

}  // namespace unisono::transport::inproc
