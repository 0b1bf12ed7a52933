#include "cli/bench/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <span>
#include <vector>

#include "base/free_memory.h"
#include "base/median.h"
#include "tuning/topology.h"

namespace unisono::cli {

plan::Question question_of(const Group& group, const Problem& problem) {
  plan::Question question;
  question.collective = problem.collective;
  question.one_host = group.transport() == "shm" || group.transport() == "inproc";
  question.ranks = problem.size;
  question.bytes = total_bytes(problem);
  question.several_hosts = group.transport() == "mixed";
  question.several_nodes = question.one_host && tuning::several_nodes(group.topology());
  return question;
}

namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr std::size_t kPage = 4096;
/// What glibc's malloc puts before a large block, which begins with a page.
constexpr std::size_t kMallocs = 16;

double seconds_between(SteadyClock::time_point from, SteadyClock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Where this rank's data lies for the problem, in place or not.
Call make_call(const Problem& p, int rank, bool in_place, const MeasureOptions& options, const BenchMemory& memory) {
  Call call;
  call.collective = p.collective;
  call.count = p.count;
  call.dtype = p.dtype;
  call.op = p.op;
  call.root = p.root;
  call.options.algorithm = options.algorithm;
  const std::int64_t in = input_elements(p, rank);
  const std::int64_t out = output_elements(p, rank);
  std::byte* input = memory.input();
  std::byte* output = memory.output();
  if (in_place && in > 0 && out > 0) {
    const std::int64_t own = rank * p.count * static_cast<std::int64_t>(size_of(p.dtype));
    if (in > out) {
      output = input + own;
    } else {
      input = out > in ? output + own : output;
    }
  }
  call.input = in > 0 ? input : nullptr;
  call.output = out > 0 ? output : nullptr;
  return call;
}

/// Whether ranks can run ahead of each other in it, so that back-to-back calls would overlap. In an
/// all_to_all ranks that take turns on a core end one call and begin the next one in one turn: then
/// the longest of their intervals is longer than a call.
bool one_sided(Collective c) { return rooted(c) || c == Collective::all_to_all; }

/// Each of so many calls, one after the other, on this rank.
std::vector<Sample> time_calls(const Group& group, const Call& call, std::int64_t iterations) {
  std::vector<Sample> samples(static_cast<std::size_t>(iterations));
  const bool separate = one_sided(call.collective);
  group.barrier();
  auto start = SteadyClock::now();
  for (Sample& s : samples) {
    if (separate) {
      group.barrier();
      start = SteadyClock::now();
    }
    group.run(call);
    const auto end = SteadyClock::now();
    s = {seconds_between(start, end), group.last_algorithm()};
    start = end;
  }
  return samples;
}

/// Calls whose times count together: ranks that share a core end one call and begin the next one in
/// one turn, so that the next one of them takes hardly any time.
constexpr std::int64_t kTogether = 8;

/// Seconds a call on this rank, of so many in a row at a time as leave eight portions. Who can run
/// ahead in them is held up by a barrier, which counts: where the root, say, leaves the barrier
/// last, it finds all done, and that looks fast whatever it cost the others.
std::vector<double> time_in_a_row(const Group& group, const Call& call, std::int64_t iterations) {
  const std::int64_t together = std::clamp<std::int64_t>(iterations / kTogether, 1, kTogether);
  std::vector<double> seconds(static_cast<std::size_t>(std::max<std::int64_t>(1, iterations / together)));
  group.barrier();
  auto start = SteadyClock::now();
  for (double& s : seconds) {
    for (std::int64_t i = 0; i < together; i++) {
      group.run(call);
      if (rooted(call.collective)) group.barrier();
    }
    const auto end = SteadyClock::now();
    s = seconds_between(start, end) / static_cast<double>(together);
    start = end;
  }
  return seconds;
}

/// What rank 0 says, on every rank.
std::int64_t agree(const Group& group, std::int64_t value) {
  group.broadcast(std::span<std::int64_t>(&value, 1));
  return value;
}

/// In ascending order: what so many in a hundred of them are not above.
double percentile(const std::vector<double>& sorted, std::size_t percent) {
  constexpr std::size_t kAll = 100;
  const std::size_t rank = (sorted.size() * percent + kAll - 1) / kAll;
  return sorted.empty() ? 0 : sorted[std::max<std::size_t>(rank, 1) - 1];
}

/// One more call on known values.
std::int64_t count_wrong(const Group& group, const Problem& p, const Call& call) {
  const auto element = static_cast<std::int64_t>(size_of(p.dtype));
  constexpr int kGarbage = 0x5a;
  auto* input = static_cast<std::byte*>(const_cast<void*>(call.input));  // the benchmark's own memory
  if (call.output != nullptr)
    std::memset(call.output, kGarbage, static_cast<std::size_t>(output_elements(p, group.rank()) * element));
  if (input != nullptr) fill_input(p, group.rank(), input);
  group.run(call);
  std::int64_t wrong = call.output != nullptr ? wrong_in_output(p, group.rank(), call.output) : 0;
  const auto* output = static_cast<const std::byte*>(call.output);
  const bool apart = output == nullptr || input == nullptr ||
                     output + output_elements(p, group.rank()) * element <= input ||
                     input + input_elements(p, group.rank()) * element <= output;
  if (apart && input != nullptr) wrong += wrong_in_input(p, group.rank(), input);  // must not have been written
  group.all_reduce(std::span<std::int64_t>(&wrong, 1));
  return wrong;
}

}  // namespace

void BenchMemory::Free::operator()(std::byte* p) const noexcept { std::free(p); }

BenchMemory::Block BenchMemory::allocate(std::size_t bytes) const {
  if (const std::uint64_t free = free_memory(); bytes > free)
    throw InvalidArgument(
        fmt::format("buffers of {} bytes do not fit into the {} bytes of memory that are free: choose "
                    "smaller --sizes",
                    bytes, free));
  const std::size_t pages = std::max<std::size_t>(1, (bytes + kPage - 1) / kPage);
  Block block;
  if (kind_ == MemoryKind::shared) {
    block.shared = group_->allocate(pages * kPage);
    block.begin = block.shared.data();
    std::memset(block.begin, 0, pages * kPage);
    return block;
  }
  // Where malloc would have it: so the ends of registered memory lie on pages of its owner.
  const std::size_t skew = kind_ == MemoryKind::registered ? kMallocs : 0;
  block.own.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, (pages + 1) * kPage)));
  if (block.own == nullptr) throw std::bad_alloc();
  block.begin = block.own.get() + skew;
  std::memset(block.begin, 0, pages * kPage);
  if (kind_ == MemoryKind::registered) block.registration = group_->register_buffer(block.begin, pages * kPage);
  return block;
}

void BenchMemory::reserve(std::size_t input_bytes, std::size_t output_bytes) {
  if (!input_ || input_bytes > input_bytes_) {
    input_.reset();
    input_ = allocate(input_bytes);
    input_bytes_ = input_bytes;
  }
  if (!output_ || output_bytes > output_bytes_) {
    output_.reset();
    output_ = allocate(output_bytes);
    output_bytes_ = output_bytes;
  }
}

bool has_in_place(Collective collective) noexcept {
  return collective != Collective::all_to_all && collective != Collective::barrier;
}

void prepare(const Group& group, const Problem& problem, BenchMemory& memory) {
  const auto element = size_of(problem.dtype);
  const auto input_bytes = static_cast<std::size_t>(input_elements(problem, group.rank())) * element;
  const auto output_bytes = static_cast<std::size_t>(output_elements(problem, group.rank())) * element;
  memory.reserve(input_bytes, output_bytes);
  // No zeros: there is hardware that moves them faster than all else (docs/design/0003), and what
  // programs have are others.
  constexpr int kAnything = 0x3f;  // an f32 of 0.75
  std::memset(memory.input(), kAnything, input_bytes);
  std::memset(memory.output(), kAnything, output_bytes);
}

std::vector<double> sample(const Group& group, const Problem& problem, bool in_place, const MeasureOptions& options,
                           const BenchMemory& memory, std::int64_t iterations) {
  auto seconds = time_in_a_row(group, make_call(problem, group.rank(), in_place, options, memory), iterations);
  group.all_reduce(std::span<double>(seconds), ReduceOp::max);
  return seconds;
}

std::vector<Sample> time_enough(const Group& group, const MeasureOptions& options,
                                const std::function<std::vector<Sample>(std::int64_t)>& time_calls) {
  constexpr std::int64_t kFewest = 10, kPortions = 10, kLargestPortion = 2000, kFirst = 5;
  if (options.warmup > 0) time_calls(options.warmup);
  if (options.iterations) return time_calls(*options.iterations);

  std::vector<double> first;
  for (const Sample& s : time_calls(kFirst)) first.push_back(s.seconds);
  const double fitting = options.seconds / kPortions / std::max(median(std::move(first)), 1e-9);
  const std::int64_t portion =
      agree(group, static_cast<std::int64_t>(std::clamp(fitting, 1.0, double{kLargestPortion})));
  const auto begin = SteadyClock::now();
  std::vector<Sample> samples;
  bool more = true;
  while (more) {  // rank 0 ends it early when calls take longer than the first ones let expect
    const auto next = time_calls(portion);
    samples.insert(samples.end(), next.begin(), next.end());
    const auto calls = static_cast<std::int64_t>(samples.size());
    const bool time_left = seconds_between(begin, SteadyClock::now()) < options.seconds;
    more = agree(group, calls < kFewest || (time_left && calls < portion * kPortions)) != 0;
  }
  return samples;
}

Measurement slowest(const Group& group, const std::vector<Sample>& samples) {
  std::vector<double> seconds;
  for (const Sample& s : samples) seconds.push_back(s.seconds);
  group.all_reduce(std::span<double>(seconds), ReduceOp::max);
  std::sort(seconds.begin(), seconds.end());

  Measurement m;
  m.calls = static_cast<std::int64_t>(seconds.size());
  m.seconds = median(seconds);
  if (!seconds.empty()) m.least = seconds.front(), m.most = seconds.back();
  m.p5 = percentile(seconds, 5);
  m.p95 = percentile(seconds, 95);
  std::map<std::string_view, std::int64_t> calls;
  for (const Sample& s : samples)
    if (!s.algorithm.empty()) calls[s.algorithm]++;
  m.algorithms.assign(calls.begin(), calls.end());
  std::stable_sort(m.algorithms.begin(), m.algorithms.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return m;
}

Measurement measure(const Group& group, const Problem& problem, bool in_place, const MeasureOptions& options,
                    BenchMemory& memory) {
  prepare(group, problem, memory);
  const Call call = make_call(problem, group.rank(), in_place, options, memory);

  Measurement result = slowest(
      group, time_enough(group, options, [&](std::int64_t iterations) { return time_calls(group, call, iterations); }));
  if (options.check) result.wrong = count_wrong(group, problem, call);
  return result;
}

}  // namespace unisono::cli
