// What two ranks can have on ordinary memory, which neither can map from the other: their bytes go through a ring in shared memory (two copies, each on
// its own core), or through the kernel (one copy, on the reader's). No headers, no errors, no waiting but for the bytes themselves: each way is tried with
// several slices, and the fastest counts. Two processes, one a core, as ranks are: threads have
// page tables in common, and the kernel copies for one of them at a time. In place, as the other programs here measure.
//   usage: ordinary COLLECTIVE RANKS SECONDS BYTES...      prints a line of JSON a size; nothing for other than 2 ranks, or a collective not below
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kPage = 4096;

/// What each rank does: bytes that it gives, from `give` of its memory, and that it takes, to `take`; all_reduce sums on the way.
struct Side {
  std::size_t give = 0, given = 0, take = 0;
};
struct Shape {
  std::array<Side, 2> sides;
  bool sums = false;
  std::size_t local = 0;  ///< bytes that each rank copies within its own memory
};

bool shape_of(const std::string& name, std::size_t bytes, Shape& s) {
  const std::size_t half = bytes / 2;
  if (name == "all_reduce") return s = {{Side{half, half, 0}, Side{0, half, half}}, true, 0}, true;
  if (name == "all_gather") return s = {{Side{0, half, half}, Side{half, half, 0}}, false, 0}, true;
  if (name == "all_to_all") return s = {{Side{half, half, bytes}, Side{0, half, bytes}}, false, half}, true;
  if (name == "broadcast" || name == "send") return s = {{Side{0, bytes, 0}, Side{0, 0, 0}}, false, 0}, true;
  if (name == "gather") return s = {{Side{0, 0, half}, Side{half, half, 0}}, false, 0}, true;
  if (name == "scatter") return s = {{Side{half, half, 0}, Side{0, 0, half}}, false, 0}, true;
  return false;
}

/// On small pages, as malloc has them where nobody asks for others.
char* allocate(std::size_t bytes) {
  void* memory = nullptr;
  if (::posix_memalign(&memory, kPage, bytes) != 0) std::abort();
  std::memset(memory, 0x3f, bytes);  // no zeros, as in limit.cc
  return static_cast<char*>(memory);
}

/// One direction: slices that were written and that were read, since the beginning.
struct alignas(128) Count {
  std::atomic<std::uint64_t> value{0};
};
struct Ring {
  char* memory;
  std::size_t slice, slots;
  Count written, read;

  bool has_room(std::uint64_t next) const { return next < read.value.load(std::memory_order_acquire) + slots; }
  bool has(std::uint64_t next) const { return next < written.value.load(std::memory_order_acquire); }
  char* slot(std::uint64_t i) const { return memory + i % slots * slice; }
};

void sum(float* into, const float* with, float* also, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes / 4; i++) also[i] = into[i] += with[i];
}

/// A rank of the way through rings; `results` only where sums go back.
struct Through {
  char* memory;
  Side side;
  bool sums;
  std::size_t taken;  ///< bytes
  Ring &out, &in, &results_out, &results_in;

  void run() {
    const std::size_t slice = out.slice, gives = slices(side.given), takes = slices(taken);
    const std::uint64_t o = out.written.value, i = in.read.value, ro = results_out.written.value,
                        ri = results_in.read.value;
    std::size_t given = 0, got = 0, back = 0;
    const std::size_t returns = sums ? gives : 0;
    while (given < gives || got < takes || back < returns) {
      if (given < gives && out.has_room(o + given)) {
        std::memcpy(out.slot(o + given), memory + side.give + given * slice, length(side.given, given));
        out.written.value.store(o + ++given, std::memory_order_release);
      }
      if (got < takes && in.has(i + got) && (!sums || results_out.has_room(ro + got))) {
        char* to = memory + side.take + got * slice;
        if (sums) {
          sum(reinterpret_cast<float*>(to), reinterpret_cast<const float*>(in.slot(i + got)),
              reinterpret_cast<float*>(results_out.slot(ro + got)), length(taken, got));
          results_out.written.value.store(ro + got + 1, std::memory_order_release);
        } else {
          std::memcpy(to, in.slot(i + got), length(taken, got));
        }
        in.read.value.store(i + ++got, std::memory_order_release);
      }
      if (back < returns && results_in.has(ri + back)) {
        std::memcpy(memory + side.give + back * slice, results_in.slot(ri + back), length(side.given, back));
        results_in.read.value.store(ri + ++back, std::memory_order_release);
      }
    }
  }

 private:
  std::size_t slices(std::size_t bytes) const { return (bytes + out.slice - 1) / out.slice; }
  std::size_t length(std::size_t bytes, std::size_t i) const { return std::min(out.slice, bytes - i * out.slice); }
};

void through_kernel(pid_t process, char* to, const char* from, std::size_t bytes) {
  while (bytes > 0) {
    const iovec mine{to, bytes}, theirs{const_cast<char*>(from), bytes};
    const ssize_t n = ::process_vm_readv(process, &mine, 1, &theirs, 1, 0);
    if (n <= 0) std::perror("process_vm_readv"), ::kill(process, SIGTERM), std::exit(1);  // it would wait for ever
    to += n, from += n, bytes -= static_cast<std::size_t>(n);
  }
}

/// This process runs on one of the processors that this process had at its beginning.
void bind_to(int place) {
  static const cpu_set_t all = [] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    ::sched_getaffinity(0, sizeof mask, &mask);
    return mask;
  }();
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &all) && place-- == 0) CPU_SET(cpu, &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

/// Where both processes meet.
struct Place {
  std::array<Count, 2> turns;
  std::atomic<bool> more{true};
};

/// Memory of both processes, zeros.
void* share(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::perror("mmap"), std::exit(1);
  return memory;
}

/// The median of as many rounds as fit into the time; `body(rank, the other's process)` in two processes.
template <class Body>
double median_seconds(double budget, const Body& body) {
  std::vector<double> seconds;
  Place& place = *new (share(sizeof(Place))) Place;
  const auto member = [&](int r, pid_t other) {
    bind_to(r);
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    auto meet = [&, turn = std::uint64_t{0}]() mutable {
      place.turns[r].value.store(++turn, std::memory_order_release);
      while (place.turns[1 - r].value.load(std::memory_order_acquire) < turn) {
      }
    };
    meet();
    const auto begin = Clock::now();
    for (int round = 0; place.more; round++) {
      meet();
      const auto start = Clock::now();
      body(r, other);
      meet();
      const auto end = Clock::now();
      if (r == 0 && round >= 3) seconds.push_back(std::chrono::duration<double>(end - start).count());
      if (r == 0) place.more = seconds.size() < 5 || std::chrono::duration<double>(end - begin).count() < budget;
      meet();
    }
  };
  const pid_t first = ::getpid(), second = ::fork();
  if (second < 0) std::perror("fork"), std::exit(1);
  if (second == 0) member(1, first), ::_exit(0);
  member(0, second);
  ::waitpid(second, nullptr, 0);
  ::munmap(&place, sizeof(Place));
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

double best_seconds(const Shape& shape, std::size_t bytes, double budget) {
  constexpr std::array kSlices{16 << 10, 64 << 10, 128 << 10};
  constexpr std::size_t kSlots = 8;
  char* memory[2] = {allocate(2 * bytes), allocate(2 * bytes)};
  char* shared = static_cast<char*>(share(4 * kSlots * (128 << 10)));
  const auto local = [&](int r) { std::memcpy(memory[r] + bytes + bytes / 2, memory[r], shape.local); };
  double best = 1e9;
  for (const std::size_t slice : kSlices) {
    Ring* const rings = new (share(4 * sizeof(Ring))) Ring[4];
    for (std::size_t i = 0; i < 4; i++)
      rings[i].memory = shared + i * kSlots * slice, rings[i].slice = slice, rings[i].slots = kSlots;
    best = std::min(best, median_seconds(budget / 4, [&](int r, pid_t) {
                      local(r);
                      Through{memory[r], shape.sides[r], shape.sums,   shape.sides[1 - r].given,
                              rings[r],  rings[1 - r],   rings[2 + r], rings[3 - r]}
                          .run();
                    }));
    ::munmap(rings, 4 * sizeof(Ring));
  }
  if (!shape.sums)
    best = std::min(best, median_seconds(budget / 4, [&](int r, pid_t other) {
                      local(r);
                      through_kernel(other, memory[r] + shape.sides[r].take, memory[1 - r] + shape.sides[1 - r].give,
                                     shape.sides[1 - r].given);
                    }));
  ::munmap(shared, 4 * kSlots * (128 << 10));
  for (char* m : memory) std::free(m);
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "usage: ordinary COLLECTIVE RANKS SECONDS BYTES...\n"), 2;
  if (std::atoi(argv[2]) != 2) return 0;
  bind_to(0);
  for (int i = 4; i < argc; i++) {
    const std::size_t bytes = std::strtoull(argv[i], nullptr, 10) / 128 * 128;
    Shape shape;
    if (bytes == 0 || !shape_of(argv[1], bytes, shape)) continue;
    std::printf("{\"ranks\": 2, \"bytes\": %zu, \"time_us\": %.3f}\n", bytes,
                best_seconds(shape, bytes, std::atof(argv[3])) * 1e6);
  }
}
