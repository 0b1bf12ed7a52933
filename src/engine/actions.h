#pragma once
/// Plans over memory, looked up as far as that can be done before a call: what operations run whose blocks are not cut into slices or pieces.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "plan/ir.h"

namespace unisono::engine {

struct Binding;

/// Blocks of more bytes are cut, or take so long that looking up where they lie does not count.
inline constexpr std::int64_t kUncut = 128 << 10;

/// So many bytes behind where a space begins, which each call has elsewhere. `rank`: whose it is, of a stage or a peer's buffer.
struct Address {
  plan::Space space = plan::Space::in;
  std::int32_t rank = -1;
  std::int64_t offset = 0;
  friend bool operator==(const Address&, const Address&) = default;
};

/// A step, or what it does with one block; or copies of blocks that lie side by side in another rank's memory, as one.
struct Action {
  static constexpr std::size_t kMostTargets = 8;

  plan::OpCode op = plan::OpCode::copy;
  std::uint8_t targets = 1;    ///< of a copy: so many destinations, filled one behind the other
  std::uint16_t channel = 0;   ///< of signal and wait
  std::int32_t peer = -1;      ///< of wait
  std::uint32_t step = 0;      ///< of the plan
  std::uint32_t operands = 0;  ///< the first of them: destinations, then sources
  std::size_t bytes = 0;       ///< of each destination; not 0 but for signal and wait
  friend bool operator==(const Action&, const Action&) = default;
};

/// A value; empty where there is nothing to do, or the plan runs otherwise.
struct Actions {
  std::vector<Action> list;       ///< in the order in which they are done
  std::vector<Address> operands;  ///< of all
  std::span<const Address> of(const Action& a, std::size_t count) const {
    return {operands.data() + a.operands, count};
  }
};

/// Whether the plan may run so: it is over memory alone, and its blocks are no larger than kUncut.
bool runs_uncut(const plan::Plan& plan, const Binding& binding) noexcept;
/// Of a plan that does.
Actions actions_of(const plan::Plan& plan, const Binding& binding);

}  // namespace unisono::engine
