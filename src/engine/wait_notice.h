#pragma once
/// What processes that wait for each other tell each other: docs/wire-format.md.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace unisono::engine {

/// A wait, as others hear of it.
struct WaitHop {
  std::uint64_t wait = 0;   ///< its number, which no other wait of any process has
  bool certain = true;      ///< nothing but what it waits for can end it
  bool collective = false;  ///< it is one for a collective
  int rank = -1;            ///< who waits, in the group in which it waits
  std::string text;         ///< who waits, in what, since when
};

struct WaitNotice {
  enum class Kind : std::uint8_t {
    ask,      ///< I am in wait `wait`, for you: in what are you?
    confirm,  ///< in `wait`, and I have nothing under way that ends your `to`
    path,     ///< each of `hops` waits for the next, and the last one for your `to`
    cycle,    ///< `hops` wait for each other; your `to` is one of them
    end       ///< all of them have heard that: your `to` ends
  };
  Kind kind = Kind::ask;
  std::uint64_t to = 0;        ///< the wait of the receiver that is meant
  std::uint64_t wait = 0;      ///< the sender's
  std::uint64_t group = 0;     ///< ask: in which it waits
  std::uint64_t sequence = 0;  ///< ask: for which collective there; 0: for a message
  bool certain = true;         ///< confirm: as WaitHop has it
  std::vector<WaitHop> hops{};

  std::vector<std::byte> encode() const;
  static Result<WaitNotice> decode(std::span<const std::byte> bytes);
};

/// The waits of a cycle, in words; the smallest rank first.
std::string describe_cycle(std::span<const WaitHop> hops);

}  // namespace unisono::engine
