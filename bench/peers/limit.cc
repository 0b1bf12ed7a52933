// The limit of memory for a collective on f32 among ranks of one host: as many threads read every input once and write every output
// once, nothing is copied on the way and nobody waits for anybody before the end. In place, as bench/collectives.py measures: a rank's own block is not moved.
//   usage: limit COLLECTIVE RANKS SECONDS BYTES...      prints a line of JSON a size, as the other programs here do
#ifdef __SSE2__
#include <immintrin.h>
#endif
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
typedef float Line __attribute__((vector_size(64), aligned(64), may_alias));
constexpr std::size_t kFloats = 16, kHuge = 2 << 20;

/// Touched, on huge pages if the system has them.
float* allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kHuge, (bytes + kHuge - 1) / kHuge * kHuge) != 0) std::abort();
  ::madvise(memory, bytes, MADV_HUGEPAGE);
  auto* floats = static_cast<float*>(memory);
  std::fill(floats, floats + bytes / 4, 1.0f);  // no zeros: there is hardware that moves them faster than all else
  return floats;
}

/// By the widest stores around the caches that there are.
inline void store_around(Line* to, const Line& line) {
  auto* floats = reinterpret_cast<float*>(to);
#if defined(__AVX512F__)
  _mm512_stream_ps(floats, reinterpret_cast<const __m512&>(line));
#elif defined(__AVX__)
  for (int k = 0; k < 2; k++) _mm256_stream_ps(floats + 8 * k, reinterpret_cast<const __m256*>(&line)[k]);
#elif defined(__SSE2__)
  for (int k = 0; k < 4; k++) _mm_stream_ps(floats + 4 * k, reinterpret_cast<const __m128*>(&line)[k]);
#else
  *to = line;
#endif
}

/// Lines [from, to) of `count` lines: summed over `in` and written to each of `out`.
struct Job {
  std::vector<const float*> in;
  std::vector<float*> out;
  std::size_t lines;
};

/// How memory is gone through.
enum class Way { plain, fours, several, around, ahead };
constexpr Way kWays[] = {
    Way::plain,
    Way::fours,    ///< four lines of each operand together
    Way::several,  ///< at several places by turns, and lines are asked for before they are read
    Way::around,   ///< stores go around the caches
    Way::ahead     ///< and lines are asked for long before they are read
};
constexpr std::size_t kAhead = 2048, kSoon = 512;  ///< floats
/// Several places: how many, lines at each of them by turns, and lines from one to the next (no power of two, whose lines would share sets of the caches).
constexpr std::size_t kPlaces = 4, kAtOnce = 4, kApart = 276;

/// Who does what of a job: each thread as much as any other, or pieces as they come. Cores are not equally fast, and the slowest is waited for.
enum class Sharing {
  equal,
  to_and_fro,  ///< likewise, in every second round from the end: what does not fit into the caches as a whole is found there in part
  as_they_come
};
constexpr Sharing kSharings[] = {Sharing::equal, Sharing::to_and_fro, Sharing::as_they_come};
constexpr std::size_t kPiece = 2048;  ///< lines

template <int kIn, int kOut, Way kWay>
void work_on(const Job& job, std::size_t from, std::size_t to) {
  const int ins = kIn ? kIn : static_cast<int>(job.in.size()), outs = kOut ? kOut : static_cast<int>(job.out.size());
  constexpr std::size_t kFour = 4;
  if constexpr (kWay == Way::fours)
    for (; to - from >= kFour; from += kFour) {
      Line sums[kFour];
      for (std::size_t v = 0; v < kFour; v++) {
        const std::size_t i = (from + v) * kFloats;
        sums[v] = *reinterpret_cast<const Line*>(job.in[0] + i);
        for (int r = 1; r < ins; r++) sums[v] += *reinterpret_cast<const Line*>(job.in[r] + i);
      }
      for (int r = 0; r < outs; r++)
        for (std::size_t v = 0; v < kFour; v++) *reinterpret_cast<Line*>(job.out[r] + (from + v) * kFloats) = sums[v];
    }
  for (std::size_t i = from * kFloats; i < to * kFloats; i += kFloats) {
    if constexpr (kWay == Way::ahead || kWay == Way::several)
      for (int r = 0; r < ins; r++) __builtin_prefetch(job.in[r] + i + (kWay == Way::ahead ? kAhead : kSoon));
    Line sum = *reinterpret_cast<const Line*>(job.in[0] + i);
    for (int r = 1; r < ins; r++) sum += *reinterpret_cast<const Line*>(job.in[r] + i);
    for (int r = 0; r < outs; r++) {
      auto* to_line = reinterpret_cast<Line*>(job.out[r] + i);
      if constexpr (kWay == Way::around || kWay == Way::ahead)
        store_around(to_line, sum);
      else
        *to_line = sum;
    }
  }
}

/// work_on() as `kWay` says, which may be at several places.
template <int kIn, int kOut, Way kWay>
void go_through(const Job& job, std::size_t from, std::size_t to) {
  if constexpr (kWay == Way::several)
    for (; to - from >= kPlaces * kApart; from += kPlaces * kApart)
      for (std::size_t i = 0; i < kApart; i += kAtOnce)
        for (std::size_t place = 0; place < kPlaces; place++) {
          const std::size_t at = from + place * kApart + i;
          work_on<kIn, kOut, kWay>(job, at, at + kAtOnce);
        }
  work_on<kIn, kOut, kWay>(job, from, to);
}

template <Way kWay>
auto choose_work(const Job& job) {
  const std::size_t ins = job.in.size(), outs = job.out.size();
  if (ins == 1 && outs == 1) return go_through<1, 1, kWay>;
  if (ins == 2 && outs == 2) return go_through<2, 2, kWay>;
  if (ins == 4 && outs == 4) return go_through<4, 4, kWay>;
  if (ins == 8 && outs == 8) return go_through<8, 8, kWay>;
  return go_through<0, 0, kWay>;
}

/// All that the collective has to do; `inputs` and `outputs` of the ranks are the same where it is in place.
std::vector<Job> jobs_of(const std::string& name, const std::vector<float*>& inputs, const std::vector<float*>& outputs,
                         std::size_t lines) {
  const std::size_t n = inputs.size(), part = std::max<std::size_t>(1, lines / n);
  const std::vector<const float*> all(inputs.begin(), inputs.end());
  std::vector<Job> jobs;
  const auto block = [&](float* of, std::size_t r) { return of + r * part * kFloats; };
  if (name == "all_reduce") jobs.push_back({all, inputs, lines});
  if (name == "reduce") jobs.push_back({all, {inputs[0]}, lines});
  if (name == "broadcast") jobs.push_back({{inputs[0]}, {inputs.begin() + 1, inputs.end()}, lines});
  if (name == "send") jobs.push_back({{inputs[0]}, {inputs[1]}, lines});
  for (std::size_t r = 0; r < n; r++) {
    std::vector<const float*> blocks;
    std::vector<float*> others;
    for (std::size_t q = 0; q < n; q++) {
      blocks.push_back(block(inputs[q], r));
      if (q != r) others.push_back(block(inputs[q], r));
    }
    if (name == "reduce_scatter") jobs.push_back({blocks, {block(inputs[r], r)}, part});
    if (name == "all_gather") jobs.push_back({{block(inputs[r], r)}, others, part});
    if (name == "gather" && r != 0) jobs.push_back({{block(inputs[r], r)}, {block(inputs[0], r)}, part});
    if (name == "scatter" && r != 0) jobs.push_back({{block(inputs[0], r)}, {block(inputs[r], r)}, part});
    if (name == "all_to_all")
      for (std::size_t q = 0; q < n; q++) jobs.push_back({{block(inputs[q], r)}, {block(outputs[r], q)}, part});
  }
  return jobs;
}

/// A meeting point that costs as little as one can.
class Meeting {
 public:
  explicit Meeting(int size) : size_(size) {}
  void arrive() {
    const unsigned turn = turn_.load();
    if (here_.fetch_add(1) + 1 == size_) {
      here_ = 0;
      turn_++;
      return;
    }
    for (int spin = 0; turn_.load() == turn; spin++)
      if (spin % 1024 == 1023) ::sched_yield();
  }

 private:
  const int size_;
  std::atomic<int> here_{0};
  std::atomic<unsigned> turn_{0};
};

int cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

struct Problem {
  std::string collective;
  int ranks;
  std::size_t bytes;
  double budget;  ///< seconds
};

auto choose_work(const Job& job, Way way) {
  switch (way) {
    case Way::plain:
      return choose_work<Way::plain>(job);
    case Way::fours:
      return choose_work<Way::fours>(job);
    case Way::several:
      return choose_work<Way::several>(job);
    case Way::around:
      return choose_work<Way::around>(job);
    default:
      return choose_work<Way::ahead>(job);
  }
}

/// The part of `job` that thread t of a team does, from its end or not; `next` is where nobody is yet.
void do_part(const Job& job, Way way, Sharing sharing, bool from_end, int t, int team, std::atomic<std::size_t>& next) {
  const auto work = choose_work(job, way);
  if (sharing != Sharing::as_they_come) {
    const std::size_t share = job.lines / team, rest = job.lines % team, index = static_cast<std::size_t>(t);
    const std::size_t from = index * share + std::min(index, rest), to = from + share + (index < rest ? 1 : 0);
    if (!from_end) return work(job, from, to);
    for (std::size_t end = to; end > from; end -= std::min(kPiece, end - from))
      work(job, end - std::min(kPiece, end - from), end);
    return;
  }
  for (std::size_t from = next.fetch_add(kPiece); from < job.lines; from = next.fetch_add(kPiece))
    work(job, from, std::min(from + kPiece, job.lines));
}

/// The median over rounds.
double median_seconds(const Problem& p, const std::vector<Job>& jobs, Way way, Sharing sharing) {
  const std::size_t lines = std::max<std::size_t>(1, p.bytes / sizeof(Line));
  // A thread for each rank, as a rank has one core: with more cores than ranks a larger team would be faster than any ranks can be.
  const int team = std::min({cores(), p.ranks, static_cast<int>(std::min<std::size_t>(lines, 1024))});
  Meeting meeting(team);
  std::atomic<bool> more{true};
  std::vector<std::atomic<std::size_t>> next(jobs.size());
  std::vector<double> seconds;
  const auto member = [&](int t) {
    const auto begin = Clock::now();
    for (int round = 0; more; round++) {
      meeting.arrive();
      const auto start = Clock::now();
      const bool from_end = sharing == Sharing::to_and_fro && round % 2 == 1;
      for (std::size_t k = 0; k < jobs.size(); k++) {
        const std::size_t j = from_end ? jobs.size() - 1 - k : k;
        do_part(jobs[j], way, sharing, from_end, t, team, next[j]);
      }
      meeting.arrive();
      const auto end = Clock::now();
      if (t == 0 && round >= 5) seconds.push_back(std::chrono::duration<double>(end - start).count());
      if (t == 0) std::ranges::for_each(next, [](auto& n) { n = 0; });
      if (t == 0) more = seconds.size() < 10 || std::chrono::duration<double>(end - begin).count() < p.budget;
      meeting.arrive();
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < team; t++) others.emplace_back(member, t);
  member(0);
  for (std::thread& t : others) t.join();
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

/// By the way and the sharing that look the fastest, measured once more: the least of several medians would be the luckiest one, as memory changes its speed.
double best_seconds(const Problem& p, const std::vector<Job>& jobs) {
  Problem look = p;
  look.budget /= std::size(kWays) * std::size(kSharings);
  double least = std::numeric_limits<double>::infinity();
  Way best_way = Way::plain;
  Sharing best_sharing = Sharing::equal;
  for (const Sharing sharing : kSharings)
    for (const Way way : kWays)
      if (const double seconds = median_seconds(look, jobs, way, sharing); seconds < least)
        least = seconds, best_way = way, best_sharing = sharing;
  return median_seconds(p, jobs, best_way, best_sharing);
}

double measure(const Problem& p) {
  const std::size_t lines = std::max<std::size_t>(1, p.bytes / sizeof(Line)), room = (lines + p.ranks) * sizeof(Line);
  std::vector<float*> inputs, outputs;
  for (int r = 0; r < p.ranks; r++) inputs.push_back(allocate(room));
  for (int r = 0; r < p.ranks; r++) outputs.push_back(p.collective == "all_to_all" ? allocate(room) : inputs[r]);
  const std::vector<Job> jobs = jobs_of(p.collective, inputs, outputs, lines);
  if (jobs.empty()) std::fprintf(stderr, "no collective %s\n", p.collective.c_str()), std::exit(2);
  const double seconds = best_seconds(p, jobs);
  for (int r = 0; r < p.ranks; r++) {
    if (outputs[r] != inputs[r]) std::free(outputs[r]);
    std::free(inputs[r]);
  }
  return seconds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "usage: limit COLLECTIVE RANKS SECONDS BYTES...\n"), 2;
  for (int i = 4; i < argc; i++) {
    const Problem p{argv[1], std::atoi(argv[2]), std::strtoull(argv[i], nullptr, 10), std::atof(argv[3])};
    std::printf("{\"ranks\": %d, \"bytes\": %zu, \"time_us\": %.3f}\n", p.ranks, p.bytes, measure(p) * 1e6);
  }
}
