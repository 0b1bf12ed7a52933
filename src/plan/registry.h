#pragma once
/// The table of algorithms: adding one is a file in algorithms/<collective>/ and a row in registry.cc.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "plan/ir.h"

namespace unisono::plan {

/// Where an algorithm can run: `network` uses send and recv only (any transport, shared memory included);
/// `shared_memory` uses stages (all ranks on one host); `shared_buffers` the callers' buffers themselves, which must lie in
/// memory that unisono allocated (Group::allocate), as far as others touch them; `shared_outputs` likewise, for a collective that has a
/// shared_buffers algorithm, too, which needs no outputs and runs where not all of them lie there; `peer_memory` the callers' buffers
/// wherever they lie, but only reads others' (process_vm_readv, where the kernel allows it); `several_hosts` uses send and recv, and looks at who shares a host with whom
/// (Shape::hosts): it needs several hosts, some of them with several ranks; `several_nodes` uses stages, and looks at who shares a NUMA
/// node with whom (Shape::nodes): it needs one host, several nodes, and several ranks on some of them.
enum class Place : std::uint8_t {
  network,
  shared_memory,
  shared_buffers,
  shared_outputs,
  peer_memory,
  several_hosts,
  several_nodes
};

/// Whether others touch the callers' buffers, which must lie in memory that unisono allocated.
constexpr bool needs_shared_buffers(Place place) noexcept {
  return place == Place::shared_buffers || place == Place::shared_outputs;
}

/// Whether its plans have stages: all ranks on one host.
constexpr bool needs_one_host(Place place) noexcept {
  return place == Place::shared_memory || needs_shared_buffers(place) || place == Place::peer_memory ||
         place == Place::several_nodes;
}

/// What else a row says of its algorithm.
enum class Traits : std::uint8_t {
  none,
  even_only,    ///< forwards blocks whose size only their owners know: counts must be equal
  partial_sums  ///< adds up in several steps; the others add all inputs of a block in one
};

/// Closed-form cost of an algorithm for blocks of equal size, over all ranks; the verifier counts and compares.
struct Cost {
  static constexpr std::int64_t kNotCounted = -1;  ///< steps that depend on more than the number of ranks

  std::int64_t steps = 0;  ///< network: rounds of messages, when a rank sends one and receives one at a time in the
                           ///< order of its plan; shared memory: the longest chain of signals and waits
  double volume =
      0;  ///< the most that one rank sends (network) or puts + gets + reduces from stages, and from and to other ranks'
          ///< buffers (shared memory), as a
          ///< multiple of the collective's size S (count for all_reduce, reduce, broadcast; the whole
          ///< n-block buffer for the others)
  friend bool operator==(const Cost&, const Cost&) = default;
};

struct Algorithm {
  Collective collective;
  std::string_view name;  ///< "ring"
  Place place;
  std::string_view summary;  ///< one line for tables
  std::string_view source;   ///< paper, or "folklore"
  Traits traits;
  Plan (*build)(const Shape&);
  Cost (*cost)(const Shape&);

  bool even_only() const noexcept { return traits == Traits::even_only; }
  /// Whether some rank of `ranks` keeps or sends the sum of several inputs, but not of all. Of f16 and bf16 such sums are f32 (widened.h).
  bool has_partial_sums(std::int32_t ranks) const noexcept { return traits == Traits::partial_sums && ranks > 2; }
};

/// All algorithms, grouped by collective, the plainest first.
std::span<const Algorithm> algorithms() noexcept;

/// The algorithm of that name, or nullptr.
const Algorithm* find_algorithm(Collective collective, std::string_view name) noexcept;

}  // namespace unisono::plan
