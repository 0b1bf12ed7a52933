// The limit of memory for an in-place f32 sum all_reduce among ranks of one host: a team of threads sums the ranks' buffers and writes
// the sum over each, so that every byte is read once and written once, nothing is copied and nobody waits for anybody.
//   usage: limit RANKS SECONDS BYTES...      prints a line of JSON a size, as the other programs here do
#include <sched.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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
  std::fill(floats, floats + bytes / 4, 0.0f);  // zeros: sums of sums stay what they are
  return floats;
}

template <int kRanks>
void sum_over_all(float* const* buffers, int, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; i += kFloats) {
    Line sum = *reinterpret_cast<const Line*>(buffers[0] + i);
    for (int r = 1; r < kRanks; r++) sum += *reinterpret_cast<const Line*>(buffers[r] + i);
    for (int r = 0; r < kRanks; r++) *reinterpret_cast<Line*>(buffers[r] + i) = sum;
  }
}
void sum_over_any(float* const* buffers, int ranks, std::size_t from, std::size_t to) {
  for (std::size_t i = from; i < to; i += kFloats) {
    Line sum = *reinterpret_cast<const Line*>(buffers[0] + i);
    for (int r = 1; r < ranks; r++) sum += *reinterpret_cast<const Line*>(buffers[r] + i);
    for (int r = 0; r < ranks; r++) *reinterpret_cast<Line*>(buffers[r] + i) = sum;
  }
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

double median_seconds(int ranks, std::size_t bytes, double budget) {
  const std::size_t lines = std::max<std::size_t>(1, bytes / sizeof(Line));
  std::vector<float*> buffers;
  for (int r = 0; r < ranks; r++) buffers.push_back(allocate(lines * sizeof(Line)));
  const int team = std::min<int>(cores(), static_cast<int>(std::min<std::size_t>(lines, 1024)));
  const auto work = ranks == 2   ? sum_over_all<2>
                    : ranks == 4 ? sum_over_all<4>
                    : ranks == 8 ? sum_over_all<8>
                                 : sum_over_any;
  Meeting meeting(team);
  std::atomic<bool> more{true};
  std::vector<double> seconds;
  const auto member = [&](int t) {
    const std::size_t share = lines / team, rest = lines % team, index = static_cast<std::size_t>(t);
    const std::size_t from = index * share + std::min(index, rest), to = from + share + (index < rest ? 1 : 0);
    const auto begin = Clock::now();
    for (int round = 0; more; round++) {
      meeting.arrive();
      const auto start = Clock::now();
      work(buffers.data(), ranks, from * kFloats, to * kFloats);
      meeting.arrive();
      const auto end = Clock::now();
      if (t == 0 && round >= 5) seconds.push_back(std::chrono::duration<double>(end - start).count());
      if (t == 0) more = seconds.size() < 10 || std::chrono::duration<double>(end - begin).count() < budget;
      meeting.arrive();
    }
  };
  std::vector<std::thread> others;
  for (int t = 1; t < team; t++) others.emplace_back(member, t);
  member(0);
  for (std::thread& t : others) t.join();
  for (float* buffer : buffers) std::free(buffer);
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return std::fprintf(stderr, "usage: limit RANKS SECONDS BYTES...\n"), 2;
  const int ranks = std::atoi(argv[1]);
  for (int i = 3; i < argc; i++) {
    const std::size_t bytes = std::strtoull(argv[i], nullptr, 10);
    std::printf("{\"ranks\": %d, \"bytes\": %zu, \"time_us\": %.3f}\n", ranks, bytes,
                median_seconds(ranks, bytes, std::atof(argv[2])) * 1e6);
  }
}
