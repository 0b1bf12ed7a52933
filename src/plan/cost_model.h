#pragma once
/// Constants of a layout, and what an algorithm is expected to take by them: for choosing between hosts where nobody has measured the algorithms
/// themselves. Pure. After LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995), its latency and overheads folded into `alpha` and `gap`.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "plan/registry.h"

namespace unisono::plan {

/// One way between two ranks.
struct LinkCost {
  double alpha = 0;  ///< seconds from a send to the end of its receive, for an empty message
  double gap = 0;    ///< seconds of processor time that one more message costs at either end
  double beta = 0;   ///< seconds a byte that the link is busy
  friend bool operator==(const LinkCost&, const LinkCost&) = default;
};

/// Thread-safety: a value.
struct CostModel {
  LinkCost within;   ///< two ranks of one host, by messages through shared memory
  LinkCost between;  ///< two hosts, where `pairs` does not say: the median of those that were measured
  std::map<std::pair<std::int32_t, std::int32_t>, LinkCost> pairs;  ///< by host numbers, the lower first
  double gamma = 0;  ///< seconds a byte that is added to another one, or copied

  const LinkCost& link(std::int32_t host_a, std::int32_t host_b) const;
  friend bool operator==(const CostModel&, const CostModel&) = default;
};

/// "gamma=0.1ns/B; within=1us,0.2us,0.05ns/B; between=27us,3us,8ns/B; 0-1=27us,3us,8ns/B": alpha, gap, beta. Three digits.
std::string to_text(const CostModel& model);
Result<CostModel> parse_cost_model(std::string_view text);

/// All ranks' plans of one algorithm as one graph, ready to be timed at any size.
class Schedule {
 public:
  /// `shape.rank` does not matter; shape.hosts as ir.h says. Not for staged plans: their signals have no cost here.
  Schedule(const Algorithm& algorithm, const Shape& shape);

  /// Seconds for a collective of `bytes` (S of registry.h), equal blocks, cut into slices of `slice` bytes. The first slice goes step by step;
  /// links of a host carry one message at a time each way, a processor does one thing at a time. Each further slice
  /// costs what the busiest link or processor needs for one.
  double seconds(const CostModel& model, std::int64_t bytes, std::int64_t slice) const;

 private:
  struct Node {
    OpCode op;
    std::int32_t rank, peer;
    std::int32_t blocks;      ///< written or sent
    std::int32_t sources;     ///< reduce: how many
    std::int32_t first, end;  ///< of successors_
    std::int32_t waits_for;   ///< how many predecessors
  };
  class Run;
  std::vector<Node> nodes_;
  std::vector<std::int32_t> successors_;
  std::vector<std::int32_t> hosts_;
  double blocks_ = 1;  ///< S is so many blocks
};

/// Bytes of a slice of a block over a network, unless the user says otherwise (UNISONO_SLICE).
inline constexpr std::int64_t kUsualSlice = 256 << 10;

/// What all algorithms that can run between hosts are expected to take at one size, in the registry's order.
struct Expectation {
  const Algorithm* algorithm = nullptr;
  double seconds = 0;
};

/// Another algorithm must be expected to be so much faster to take the built-in table's place: constants are not the machine.
inline constexpr double kClearlyExpected = 1.15;
/// With more ranks than this, the built-in table stands: timing all plans would take longer than a group's making should.
inline constexpr std::int32_t kMostRanksToExpect = 64;

/// For each size the expectations of one collective. `hosts` by rank.
std::vector<std::vector<Expectation>> expect(const CostModel& model, Collective collective,
                                             std::span<const std::int32_t> hosts, std::span<const std::int64_t> sizes,
                                             std::int64_t slice);

/// The sizes at which expectations are compared: 64 bytes to 64 MiB.
std::vector<std::int64_t> expectation_sizes();

/// Rules (syntax of select.h) for the sizes at which the built-in table is expected to be clearly slower than another algorithm.
std::string rules_from(const CostModel& model, std::span<const std::int32_t> hosts, std::int64_t slice);

}  // namespace unisono::plan
