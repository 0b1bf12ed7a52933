#pragma once
/// Writes one rank's Plan from code that reads like a sequential program.
///
/// Authors list steps in the order in which they would run one by one. The builder finds out which of them may overlap:
/// it puts every message on a lane of its own peer and direction (so receives are posted early and sends do not wait
/// for each other), everything else on lane 0, and adds a dependency wherever two steps on different lanes touch the
/// same block and one of them writes it. Blocks that ir.h lets a caller alias (in place) count as one block, so a plan
/// is right for both. Order that no data expresses (a barrier) is added with after().
///
/// Pure; one builder is used by one thread.

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "plan/ir.h"

namespace unisono::plan {

/// The gather list of a message: neighbours in memory are merged into one Ref as they are added.
class RefList {
 public:
  RefList() = default;
  RefList(Ref ref) { add(ref); }  // NOLINT: implicit on purpose
  RefList(std::initializer_list<Ref> refs) {
    for (const Ref& ref : refs) add(ref);
  }
  void add(Ref ref);
  std::span<const Ref> refs() const noexcept { return refs_; }

 private:
  std::vector<Ref> refs_;
};

/// Index of a step in the plan under construction.
using StepId = std::uint32_t;

class PlanBuilder {
 public:
  /// `blocks` is the k of ir.h: into how many extents all_reduce, reduce and broadcast cut the vector; the other
  /// collectives have theirs by definition. Input and output blocks are laid out as ir.h says.
  PlanBuilder(Collective collective, std::string_view algorithm, const Shape& shape, std::int32_t blocks = 1);

  /// At most this many messages in flight in each direction (16384 if never called): peers then share lanes in turn.
  void limit_lanes(std::uint16_t per_direction) { lane_limit_ = per_direction; }

  std::int32_t ranks() const noexcept { return plan_.shape.ranks; }
  std::int32_t rank() const noexcept { return plan_.shape.rank; }
  std::int32_t root() const noexcept { return plan_.shape.root; }
  /// `rank` brought into 0..ranks()-1, for offsets up to one turn either way.
  std::int32_t around(std::int32_t rank) const noexcept { return (rank + ranks()) % ranks(); }

  static Ref in(std::int32_t first, std::int32_t count = 1) { return {Space::in, -1, first, count}; }
  static Ref out(std::int32_t first, std::int32_t count = 1) { return {Space::out, -1, first, count}; }
  static Ref stage(std::int32_t rank, std::int32_t block) { return {Space::stage, rank, block, 1}; }
  /// Rank `rank`'s block of the input or output: the own one where that is this rank.
  Ref in_of(std::int32_t rank, std::int32_t block) const {
    return rank == this->rank() ? in(block) : Ref{Space::peer_in, rank, block, 1};
  }
  Ref out_of(std::int32_t rank, std::int32_t block) const {
    return rank == this->rank() ? out(block) : Ref{Space::peer_out, rank, block, 1};
  }
  /// All blocks of a space.
  Ref all(Space space) const;
  /// `count` blocks of `space` from `first`, going on at block 0 behind block ranks()-1.
  RefList wrapped(Space space, std::int32_t first, std::int32_t count) const;
  /// New scratch: one block of extent `extent`.
  Ref new_scratch(std::int32_t extent);
  /// The same, wide (ir.h).
  Ref new_wide_scratch(std::int32_t extent);
  /// New scratch: blocks of extents first, first+1, ... (modulo ranks()), contiguous.
  Ref new_scratch_wrapped(std::int32_t first, std::int32_t count);
  /// The layout of every rank's stage; the number of blocks must be the same on all ranks.
  void stage_extents(std::vector<std::int32_t> extents);
  std::int32_t extent_of(Ref ref) const;
  /// Makes it a shared plan: `exposed` of ir.h.
  void share(std::vector<std::uint8_t> exposed);
  /// Makes a shared plan a joint one.
  void help() { plan_.joint = true; }

  StepId send(std::int32_t peer, const RefList& from);
  StepId recv(std::int32_t peer, const RefList& into);
  StepId copy(Ref dst, Ref src);
  StepId put(std::int32_t stage_block, Ref src);
  StepId get(Ref dst, std::int32_t rank, std::int32_t stage_block);
  /// From and to another rank's buffer.
  StepId get(Ref dst, Ref peer);
  StepId put(Ref peer_out, Ref src);
  StepId reduce(std::initializer_list<Ref> dst, std::span<const Ref> sources, bool final);
  StepId reduce(Ref dst, std::initializer_list<Ref> sources, bool final);
  StepId reduce_into(std::span<const Ref> dst, std::span<const Ref> sources, bool final);
  StepId signal(std::uint16_t channel);
  StepId wait(std::int32_t peer, std::uint16_t channel);
  /// The step that was added last also waits for `earlier`: for order that no data expresses.
  void after(StepId earlier);

  /// The finished plan; the builder is spent.
  Plan build() &&;

 private:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
  struct Cell {
    std::uint32_t writer = kNone;
    std::uint32_t readers = kNone;  ///< head of a list in readers_
  };
  struct Reader {
    std::uint32_t step, next;
  };

  void alias();
  StepId add(OpCode op, std::int32_t peer, std::uint16_t channel, std::span<const Ref> dst, std::span<const Ref> src,
             bool final = false);
  std::uint16_t lane_of(OpCode op, std::int32_t peer);
  std::uint32_t new_cell();
  std::span<const std::uint32_t> cells_of(const Ref& ref) const;
  std::span<const std::uint32_t> shared_cells_of(const Ref& ref) const;
  bool copies_onto_itself(const Ref& dst, const Ref& src) const;
  void need(StepId earlier) {
    if (earlier != kNone) needs_.push_back(earlier);
  }
  void read(std::uint32_t cell_index, StepId step);
  void write(std::uint32_t cell_index, StepId step);
  void write_dependencies(Step& step);

  Plan plan_;
  std::vector<Cell> cells_;
  std::vector<std::uint32_t> in_cell_, out_cell_, scratch_cell_, stage_cell_;  ///< block to cell
  /// A second cell for blocks that a caller may alias, the same for input and output: hazards in place. A copy from a block
  /// onto itself is nothing in place, so it touches the first cells only.
  std::vector<std::uint32_t> in_shared_, out_shared_;
  std::vector<Reader> readers_;
  std::vector<StepId> needs_;                           ///< of the step being added
  std::vector<std::int32_t> send_lane_, recv_lane_;     ///< by peer, -1: none yet
  std::vector<std::uint16_t> send_lanes_, recv_lanes_;  ///< in the order in which they were opened
  std::uint16_t lane_limit_ = 16384;                    // so that all lanes together can be counted in 16 bits
  std::int32_t send_peers_ = 0, recv_peers_ = 0;
};

}  // namespace unisono::plan
