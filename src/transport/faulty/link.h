#pragma once
/// A Link that does to its bytes what a bad network does, repeatably.

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "transport/transports.h"

namespace unisono::transport::faulty {

/// splitmix64: small, and the same on every machine.
class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}
  std::uint64_t next() noexcept {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) noexcept { return n == 0 ? 0 : next() % n; }

 private:
  std::uint64_t state_;
};

/// The inner link and the bytes held back for it. Outlives the FaultyLink until they are on their way.
class Held {
 public:
  explicit Held(std::unique_ptr<Link> link) : inner(std::move(link)) {}
  void hold(std::vector<std::byte> bytes, TimePoint due);
  /// Hands on what is due.
  void flush(TimePoint now) noexcept;
  /// When flush() has something to do. max(): nothing is held.
  TimePoint next_flush() const noexcept;
  /// The FaultyLink is gone: the inner link follows as soon as nothing is held.
  void abandon() noexcept;
  bool over() const noexcept { return !inner; }
  std::size_t bytes() const noexcept { return bytes_; }

  std::unique_ptr<Link> inner;
  Io failure;  ///< what the inner link said when a held piece could not be written

 private:
  struct Piece {
    std::vector<std::byte> bytes;
    std::size_t sent;
    TimePoint due;
  };
  std::deque<Piece> pieces_;
  std::size_t bytes_ = 0;
  TimePoint last_due_ = TimePoint{};
  TimePoint ask_again_ = TimePoint{};  ///< the inner link was full; not before this
  bool abandoned_ = false;
};

class FaultyLink final : public Link {
 public:
  FaultyLink(std::shared_ptr<Held> held, const Faults& faults, std::uint64_t seed, const Clock& clock)
      : held_(std::move(held)), faults_(faults), random_(seed), clock_(clock) {}
  ~FaultyLink() override { held_->abandon(); }
  Io write(std::span<const ConstPart> parts) noexcept override;
  Io read(std::span<const MutablePart> parts) noexcept override;
  int fd() const noexcept override { return held_->inner->fd(); }
  SharedView* shared() noexcept override { return held_->inner->shared(); }
  Duration round_trip() const noexcept override { return held_->inner->round_trip(); }
  std::string describe() const override { return held_->inner->describe() + " (faulty)"; }

 private:
  std::size_t shorten(std::size_t bytes) noexcept;
  Io pass_on(std::span<const ConstPart> parts, std::size_t limit) noexcept;

  std::shared_ptr<Held> held_;
  Faults faults_;
  Random random_;
  const Clock& clock_;
  std::uint64_t written_ = 0;
  bool cut_ = false;
};

}  // namespace unisono::transport::faulty
