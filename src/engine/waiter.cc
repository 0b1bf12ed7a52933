#include "engine/waiter.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/host_topology.h"

namespace unisono::engine {

WaitPolicy wait_policy(int cores, int local_ranks, int spin_override) noexcept {
  WaitPolicy policy;
  // With a core for every rank a peer answers within microseconds: spin for about 50 of them. Without, spinning keeps the
  // peer from running: yield at once. Parking costs two context switches and a call into the kernel of whoever wakes us, at every
  // slice: with 400 yields, 4 ranks on 2 cores moved 64 MiB at a third of the rate that they have with 20 000 (some 10 ms). Where a
  // yield gives the core to strangers, waits park at once (Crowd).
  policy.spins = local_ranks <= cores ? 2000 : 0;
  policy.yields = local_ranks <= cores ? 1000 : 20000;
  if (spin_override >= 0) policy.spins = static_cast<std::uint32_t>(spin_override);
  return policy;
}

int usable_cores() { return within_quota(static_cast<int>(usable_cpus().size())); }

int within_quota(int cores) {
  // cgroup v2: "quota period" or "max period"; v1: two files.
  std::ifstream v2("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (v2 >> quota >> period && quota != "max" && period > 0)
    cores = std::min(cores, std::max(1, static_cast<int>(std::stod(quota) / period)));
  std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double q = 0;
  if (v1_quota >> q && v1_period >> period && q > 0 && period > 0)
    cores = std::min(cores, std::max(1, static_cast<int>(q / period)));
  return std::max(1, cores);
}

namespace {
constexpr std::int64_t kLongYield = 2'000'000;  // a rank that works on a slice is sooner (but see were_peers())
constexpr std::int64_t kWindow = 20'000'000;    // looked back on, and how long a finding lasts
constexpr std::int64_t kToSomebody = 1'000;     // a yield to nobody takes half of that
constexpr int kAlone = 8;                       // so many of these in a row: nobody is here (any more)
constexpr std::int64_t kOften = 2'000'000;      // two such yields within this time are no accident
constexpr std::int64_t kTooMuch = kWindow / 3;  // one long yield is an accident: a peer that touches new memory, say
}  // namespace

bool Crowd::here() const noexcept {
  const std::int64_t until = until_.load(std::memory_order_relaxed);
  return until != 0 && now() < until;
}

void Crowd::yield() noexcept {
  const std::int64_t before = now();
  ::sched_yield();
  note(before, now());
}

void Crowd::note(std::int64_t before, std::int64_t after) noexcept {
  if (after - before > kLongYield)
    note_long(before, after);
  else if (after - before > kToSomebody)
    note_shared(after);
  else if (to_nobody_.fetch_add(1, std::memory_order_relaxed) + 1 == kAlone)
    forget_shared();
}

bool Crowd::core_is_shared() const noexcept {
  const std::int64_t until = shared_until_.load(std::memory_order_relaxed);
  return until != 0 && now() < until;
}

void Crowd::note_shared(std::int64_t after) noexcept {
  to_nobody_.store(0, std::memory_order_relaxed);
  if (after - last_shared_.load(std::memory_order_relaxed) < kOften) {
    shared_until_.store(after + kWindow, std::memory_order_relaxed);
    found_.store(true, std::memory_order_relaxed);
  }
  last_shared_.store(after, std::memory_order_relaxed);
}

void Crowd::note_long(std::int64_t before, std::int64_t after) noexcept {
  if (before - window_.load(std::memory_order_relaxed) > kWindow) {
    window_.store(before, std::memory_order_relaxed);
    lost_.store(0, std::memory_order_relaxed);
  }
  const std::int64_t lost = lost_.load(std::memory_order_relaxed) + after - before;
  lost_.store(lost, std::memory_order_relaxed);
  if (lost > kTooMuch) until_.store(after + kWindow, std::memory_order_relaxed);
}

void Crowd::were_peers() noexcept {
  lost_.store(0, std::memory_order_relaxed);
  until_.store(0, std::memory_order_relaxed);
}

bool Waiter::pause(std::uint32_t weight) noexcept {
  if (rounds_ == 0 && policy_.spins > 0 && crowd_.core_is_shared()) rounds_ = policy_.spins;
  const std::uint32_t round = rounds_;
  rounds_ += round < policy_.spins ? weight : 1;
  if (round < policy_.spins) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb" ::: "memory");
#endif
    return true;
  }
  if (round < policy_.spins + policy_.yields) {
    if (crowd_.here()) return false;
    crowd_.yield();
    return true;
  }
  return false;
}

}  // namespace unisono::engine
