#pragma once
/// Times and checks one collective, or messages, on one group. Every rank calls these together.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/bench/values.h"
#include "plan/select.h"
#include "unisono/group.hpp"

namespace unisono::cli {

/// Where buffers lie: ordinary memory, as programs have it; from Group::allocate; or ordinary
/// memory that was registered (Group::register_buffer).
enum class MemoryKind : std::uint8_t { ordinary, shared, registered };

/// Input and output of the largest problem so far, touched, page-aligned but for registered memory,
/// which begins where malloc would have it.
class BenchMemory {
 public:
  /// Ordinary memory.
  BenchMemory() = default;
  /// `group` must outlive it.
  BenchMemory(const Group& group, MemoryKind kind) : group_(&group), kind_(kind) {}
  /// Make room; the contents are lost.
  void reserve(std::size_t input_bytes, std::size_t output_bytes);
  std::byte* input() const noexcept { return input_ ? input_->begin : nullptr; }
  std::byte* output() const noexcept { return output_ ? output_->begin : nullptr; }

 private:
  struct Free {
    void operator()(std::byte* p) const noexcept;
  };
  struct Block {
    std::unique_ptr<std::byte[], Free> own;
    Buffer shared;
    Registration registration;  ///< of `own`: goes before it
    std::byte* begin = nullptr;
  };
  Block allocate(std::size_t bytes) const;
  const Group* group_ = nullptr;
  MemoryKind kind_ = MemoryKind::ordinary;
  std::optional<Block> input_, output_;
  std::size_t input_bytes_ = 0, output_bytes_ = 0;
};

/// What the group asks its table about that problem, with buffers of which nobody shares anything.
plan::Question question_of(const Group& group, const Problem& problem);

struct MeasureOptions {
  std::string algorithm;                   ///< empty: the group's table
  std::optional<std::int64_t> iterations;  ///< else as many as fit into `seconds`
  double seconds = 0.3;
  std::int64_t warmup = 5;
  bool check = false;
};

/// One timed call.
struct Sample {
  double seconds = 0;
  std::string_view algorithm;  ///< what ran; empty for messages
};

/// One row. Times are seconds, of the slowest rank.
struct Measurement {
  double seconds = 0;  ///< the median over the timed calls
  double least = 0, p5 = 0, p95 = 0, most = 0;
  std::int64_t calls = 0;
  std::vector<std::pair<std::string, std::int64_t>>
      algorithms;                     ///< what ran in how many calls, the most frequent first
  std::optional<std::int64_t> wrong;  ///< elements over all ranks; nothing without check
};

/// Whether the collective can run in place (all_to_all cannot).
bool has_in_place(Collective collective) noexcept;

/// Room in `memory` for `problem` on this rank, with ordinary values, no zeros.
void prepare(const Group& group, const Problem& problem, BenchMemory& memory);

/// Seconds of a call, of the slowest rank: the same figures on all ranks, one for up to eight of
/// `iterations` calls in a row; where there is a root, with a barrier behind each. After prepare().
/// Of `options`, only the algorithm counts.
std::vector<double> sample(const Group& group, const Problem& problem, bool in_place, const MeasureOptions& options,
                           const BenchMemory& memory, std::int64_t iterations);

/// `time_calls` times so many calls on this rank. The samples of as many as options ask for:
/// warm-up calls come before, and where it is the time that is given, calls come in portions, until
/// rank 0 ends it.
std::vector<Sample> time_enough(const Group& group, const MeasureOptions& options,
                                const std::function<std::vector<Sample>(std::int64_t)>& time_calls);

/// The samples of all ranks together: the slowest rank's times. The same on all ranks.
Measurement slowest(const Group& group, const std::vector<Sample>& samples);

/// Runs the collective of `problem` on `group`. Blocks; throws what the group throws.
Measurement measure(const Group& group, const Problem& problem, bool in_place, const MeasureOptions& options,
                    BenchMemory& memory);

}  // namespace unisono::cli
