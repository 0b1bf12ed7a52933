#pragma once
/// The intermediate representation: a collective is data before it is action.
///
/// A Plan is one rank's part of one algorithm. It names blocks, not pointers; it knows no dtype, no byte count and no
/// clock. The engine binds it to buffers and runs it; the verifier proves it for all ranks together; the printer draws it.
///
/// Blocks and extents. Each space is a row of blocks, numbered from 0 and contiguous in memory in that order. The size
/// of a block is not in the plan: a block names an *extent*, and the engine knows the size of each extent when it binds
/// (counts may be uneven and zero). `in_extent[b]` is the extent of block b of the input, and so on.
///   all_reduce, reduce, broadcast   extents 0..k-1: the vector cut into k nearly equal blocks
///   all_gather, gather              extents 0..n-1: what rank i contributes; input = {r}, output = {0..n-1}
///   reduce_scatter, scatter         extents 0..n-1: what rank i receives;    input = {0..n-1}, output = {r}
///   all_to_all                      extent i*n+j: what rank i sends to j;    input = {r*n+j}, output = {i*n+r}
///   barrier                         no extents
/// A rank that has no output (a non-root of reduce or gather) has no output blocks; likewise for input.
///
/// Aliasing. A caller may pass one buffer for both sides where that makes sense, and a plan must be right for either:
/// all_reduce, broadcast, and reduce at the root: out[b] is in[b]; all_gather, and gather at the root: in[0] is out[r];
/// reduce_scatter, and scatter at the root: out[0] is in[r]. A plan never writes to `in`.
///
/// Order. Steps of one lane happen in the order they are listed; a step also waits for the steps in `deps`. Steps of
/// different lanes without a dependency may overlap. `send` is done when its blocks may be overwritten, `recv` when they
/// hold the data. The k-th send from i to j on a channel meets the k-th recv at j from i on that channel (order of
/// listing); their total extents are equal, block by block.
///
/// Wide scratch. Elements of f16 and bf16 are f32 there, so that partial sums are not rounded. The operands of a reduce are all
/// wide or none is, a block of a message is so at both ends or at none, and a copy between the two kinds converts (widened.h).
///
/// Slices. The engine may cut every block into K slices and run the same plan for each, up to `window` of them at once,
/// oldest first; scratch and stage have a copy for each slice in flight. Nothing in a plan depends on K.
///
/// Staged plans (shared memory). STAGE(q) is memory that rank q writes and every rank of the group reads; a reduce may also put its result back
/// on another rank's stage, over an operand that it has read there. (Two ranks may swap their stages for a slice; a plan does not see that.)
/// signal(c) publishes all that this rank did before it on this slice; wait(q, c) returns when rank q has signalled c on
/// the same slice. A plan signals each of its channels exactly once, on all ranks alike. There is an implicit last
/// signal "done" behind the plan, and an implicit wait for the "done" of all ranks on the slice that used the same stage
/// slot `window` slices ago, in front of it. So a stage slot is free when a plan starts.
///
/// Shared plans (the callers' buffers themselves are in shared memory). PEER_IN(q) and PEER_OUT(q) are rank q's input and
/// output, block by block as q numbers them. `exposed[q]` says which of its buffers rank q opens to the others; it is the
/// same in the plans of all ranks. Others may touch a rank's buffers from its begin to its end: whoever runs such a plan
/// must know where the buffers lie, so every rank that exposes one has begun when a plan starts; but a rank ends with the
/// last step of its own plan, and its caller then does with the buffers as it likes. That nobody touches them any more
/// is for the plan's signals to see to, and for the verifier to prove. Some stage something, too, for a rank on the same core: they
/// only read others' inputs, start at once, each of their steps waiting until the owner of what it reads has begun, and run slice by slice, one
/// at a time.
///
/// Joint plans are shared ones in which some ranks soon do nothing but wait. A put from `in` to PEER_OUT(q), or a get from PEER_IN(q) to `out`, is
/// then still the step of the rank that has it in its plan, from its begin to its end. But q, while it waits for a signal of that rank, may do a part of it.
/// So may any rank that waits with the reduce of another one, of which every rank has one: it differs from that of the others in the number of its block
/// alone, which is as much larger as the rank's, and all its operands are open to all.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "unisono/types.hpp"

namespace unisono::plan {

enum class Space : std::uint8_t { in, out, scratch, stage, peer_in, peer_out };

/// Whether blocks of the space are named by their owner's rank.
constexpr bool has_owner(Space space) noexcept { return space >= Space::stage; }
/// Whether it is the input or output of another rank.
constexpr bool is_peer(Space space) noexcept { return space >= Space::peer_in; }

/// What a rank opens to the others, as bits.
inline constexpr std::uint8_t kExposesIn = 1, kExposesOut = 2;

/// `count` consecutive blocks of a space, from block `first`. `rank` is the owner of a stage or of a peer's
/// buffer, else -1.
struct Ref {
  Space space = Space::in;
  std::int32_t rank = -1;
  std::int32_t first = 0;
  std::int32_t count = 1;
  friend auto operator<=>(const Ref&, const Ref&) = default;
};

/// Whether they have a block in common. (Input and output, which may be one buffer: layout.h.)
constexpr bool overlap(const Ref& a, const Ref& b) noexcept {
  return a.space == b.space && a.rank == b.rank && a.first < b.first + b.count && b.first < a.first + a.count;
}

enum class OpCode : std::uint8_t {
  send,    ///< sources to `peer`, in order, as one message
  recv,    ///< one message from `peer` into the destinations, in order
  copy,    ///< dst[0] = src[0]
  put,     ///< a copy whose destination is this rank's own stage, or another rank's output
  get,     ///< a copy whose source is a stage or another rank's input
  reduce,  ///< every dst = src[0] op src[1] op ... (a left fold in this order); destinations may be sources
  signal,  ///< publish on `channel` (staged plans)
  wait     ///< until `peer` has signalled `channel` on this slice (staged plans)
};

/// Whether it is a copy of any kind.
constexpr bool copies(OpCode op) noexcept { return op == OpCode::copy || op == OpCode::put || op == OpCode::get; }

/// One instruction. Ranges index Plan::refs and Plan::deps.
struct Step {
  OpCode op = OpCode::copy;
  bool final = false;  ///< reduce only: dst then holds the contributions of all ranks; AVG divides here, once
  std::uint16_t lane = 0;
  std::uint16_t channel = 0;
  std::int32_t peer = -1;
  std::uint32_t dst_begin = 0, dst_count = 0;
  std::uint32_t src_begin = 0, src_count = 0;
  std::uint32_t dep_begin = 0, dep_count = 0;
  friend bool operator==(const Step&, const Step&) = default;
};

/// What an algorithm is asked for. `root` is 0 where the collective has none.
struct Shape {
  std::int32_t ranks = 1;
  std::int32_t rank = 0;
  std::int32_t root = 0;
  /// hosts[q] is the number of the host that rank q is on, from 0 in the order of their lowest ranks. Empty: one host, or nobody
  /// knows. Only algorithms for several hosts look at it.
  std::vector<std::int32_t> hosts{};
  /// nodes[q] is the number of the NUMA node that rank q and its memory are on, likewise; of ranks that all share memory. Empty: one node,
  /// or nobody knows.
  std::vector<std::int32_t> nodes{};
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

/// A value: copyable, comparable, printable. Thread-safety: immutable after it is built.
struct Plan {
  Collective collective = Collective::barrier;
  std::string algorithm;
  Shape shape;
  bool staged = false;  ///< uses stage, signal and wait: needs all ranks on one host
  bool shared =
      false;  ///< uses other ranks' buffers: they must be in shared memory. Staged too, and run as one slice if it has no stage
  bool joint = false;  ///< shared, and who waits for a rank helps it
  std::uint16_t lanes = 1;
  std::uint16_t channels = 0;  ///< signal channels, "done" not counted
  std::int32_t extents = 0;    ///< how many extents the blocks refer to
  std::vector<std::int32_t> in_extent, out_extent, scratch_extent, stage_extent;
  std::vector<std::uint8_t> wide;     ///< by block of scratch: 1 where it is wide; empty: none is
  std::vector<std::uint8_t> exposed;  ///< shared plans: by rank, kExposesIn and kExposesOut
  std::vector<Step> steps;
  std::vector<Ref> refs;
  std::vector<std::uint32_t> deps;  ///< step indices of this plan

  std::span<const Ref> dst(const Step& s) const { return {refs.data() + s.dst_begin, s.dst_count}; }
  std::span<const Ref> src(const Step& s) const { return {refs.data() + s.src_begin, s.src_count}; }
  std::span<const std::uint32_t> waits_for(const Step& s) const { return {deps.data() + s.dep_begin, s.dep_count}; }
  std::span<const std::int32_t> extents_of(Space space) const {
    switch (space) {
      case Space::in:
        return in_extent;
      case Space::out:
        return out_extent;
      case Space::scratch:
        return scratch_extent;
      case Space::stage:
        return stage_extent;
      case Space::peer_in:
      case Space::peer_out:
        return {};  // of another rank: layout.h knows them
    }
    return {};
  }
  bool is_wide(Space space, std::int32_t block) const noexcept {
    return space == Space::scratch && !wide.empty() && wide[static_cast<std::size_t>(block)] != 0;
  }
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace unisono::plan
