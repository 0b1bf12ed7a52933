#pragma once
/// Proves a collective: takes the plans of all ranks and shows that together they compute what they should.
///
/// Checked, for separate buffers and again for buffers aliased as ir.h allows:
///   - every result block holds each contribution that belongs there, exactly once, and no other;
///   - nothing is read that was not written before, nothing is ever written to `in`;
///   - no two steps that touch a block, one of them writing, are unordered: within a rank by lanes and dependencies
///     alone, for stages and for other ranks' buffers by vector clocks over lanes, messages, signals and waits;
///   - in shared plans, no rank ends while another may still touch its buffers, and nobody touches what is not exposed;
///   - no deadlock even when a message is not buffered at all (a send ends when its receive is there: whoever survives
///     that survives any amount of buffering);
///   - messages meet in order with equal extents, and each channel is signalled once by every rank;
///   - all ranks compute a block with the same reduction tree, which has exactly one final reduce, its last;
///   - of an algorithm: all of that with the copies that a shared plan begins with in the opposite order, too (opening.h);
///   - of an algorithm: it has partial sums where its row says so, and all of that with them in wide scratch, too (widened.h);
///   - in joint plans, every rank's reduction is that of any other but for the block, on memory that is open to all;
///   - the counted steps and bytes are those of the closed form.
/// Slices in flight together are proved by unroll(), which writes them out as one plan.
///
/// Pure and self-contained: any number of threads may verify at once.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/ir.h"
#include "plan/registry.h"

namespace unisono::plan {

/// What can be wrong with a plan.
enum class Fault : std::uint8_t {
  malformed,             ///< an index, peer, lane, channel or operand count that makes no sense
  layout,                ///< in or out blocks are not those of the collective
  writes_input,          ///< a step writes to `in`
  extents,               ///< a copy or reduce of blocks of different extents
  message,               ///< a message without its counterpart, or one whose two ends differ in extents or widths
  signal,                ///< a channel that is not signalled exactly once on every rank
  race,                  ///< two unordered steps on one block, one of them writing
  early_end,             ///< a rank that ends while another may still touch its input or output
  undefined_read,        ///< a read of what nobody wrote
  deadlock,              ///< steps that wait for each other
  doubled_contribution,  ///< a sum in which a rank's part is twice
  wrong_result,          ///< a result block that is missing, or lacks or has foreign contributions
  unequal_trees,         ///< ranks that reduced the same block in different ways
  final_reduce,          ///< not exactly one final reduce, or a final reduce of a partial sum
  joint,                 ///< a joint plan whose reduction others cannot do a part of
  cost                   ///< steps or bytes that are not those of the closed form
};
std::string_view name_of(Fault fault) noexcept;

struct Violation {
  Fault fault;
  std::int32_t rank = -1;  ///< -1: of no single rank
  std::int64_t step = -1;  ///< -1: of no single step
  std::string text;        ///< names rank, step and block in words
};

struct Report {
  std::vector<Violation> violations;  ///< the first few
  Cost counted;                       ///< what the plans really do
  bool ok() const noexcept { return violations.empty(); }
  bool has(Fault fault) const noexcept;
  /// One violation a line; empty when there is none.
  std::string text() const;
};

struct VerifyOptions {
  const Cost* expected = nullptr;  ///< closed form to compare with
  std::int32_t slices = 1;         ///< the plans are unroll()ed this often
  std::size_t max_violations = 16;
};

/// `plans[r]` is rank r's plan; all of one collective and root.
Report verify(std::span<const Plan> plans, const VerifyOptions& options = {});

/// Builds and verifies one algorithm for `ranks` and `root`, its closed form included; with `windows` also three slices in
/// flight in windows of 1 and 2. An algorithm for several hosts or nodes with every layout of sample_hosts().
Report verify(const Algorithm& algorithm, std::int32_t ranks, std::int32_t root, bool windows = true);
/// The same for one shape; its rank is not looked at.
Report verify(const Algorithm& algorithm, const Shape& shape, bool windows = true);

/// The plans of all ranks; the shape's rank is not looked at.
std::vector<Plan> build_all(const Algorithm& algorithm, const Shape& shape);
inline std::vector<Plan> build_all(const Algorithm& algorithm, std::int32_t ranks, std::int32_t root) {
  return build_all(algorithm, Shape{ranks, 0, root});
}

}  // namespace unisono::plan
