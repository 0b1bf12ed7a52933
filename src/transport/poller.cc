#include "transport/poller.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>

#include "base/log.h"
#include "transport/fence.h"
#include "transport/transports.h"

namespace unisono::transport {

using namespace std::chrono_literals;

namespace {
/// How long a sleep may be when the kernel refused to watch a descriptor.
constexpr Duration kBlindSleep = 1ms;
}  // namespace

void ring(const Fd& doorbell) noexcept {
  const std::uint64_t one = 1;
  while (::write(doorbell.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

Result<std::unique_ptr<EpollPoller>> EpollPoller::create() {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return Status::system("cannot create an epoll set", errno);
  Fd doorbell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!doorbell) return Status::system("cannot create an eventfd", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = doorbell.get();
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, doorbell.get(), &event) != 0)
    return Status::system("cannot watch an eventfd", errno);
  return std::unique_ptr<EpollPoller>(
      new EpollPoller(std::move(epoll), std::make_shared<const Fd>(std::move(doorbell)), ::getpid()));
}

EpollPoller::EpollPoller(Fd epoll, std::shared_ptr<const Fd> doorbell, pid_t owner)
    : epoll_(std::move(epoll)), doorbell_(std::move(doorbell)), owner_(owner) {}

bool EpollPoller::foreign() const noexcept { return ::getpid() != owner_; }

void EpollPoller::control(int fd, std::uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  const bool known = watched_.contains(fd);
  int error = ::epoll_ctl(epoll_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
  if (error == EEXIST || error == ENOENT)
    error = ::epoll_ctl(epoll_.get(), error == EEXIST ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
  if (error == 0) {
    watched_[fd] = events;
    return;
  }
  if (std::find(unwatched_.begin(), unwatched_.end(), fd) != unwatched_.end()) return;
  unwatched_.push_back(fd);
  Logger().warn(fmt::format("{}: looking at it every millisecond instead",
                            Status::system(fmt::format("cannot watch descriptor {}", fd), error).message()));
}

void EpollPoller::add(int fd) {
  if (fd >= 0 && !foreign()) control(fd, EPOLLIN);
}

void EpollPoller::remove(int fd) {
  if (fd < 0 || foreign()) return;
  std::erase(unwatched_, fd);
  if (watched_.erase(fd) != 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void EpollPoller::want_write(int fd, bool on) {
  const auto found = watched_.find(fd);
  const std::uint32_t events = on ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (found == watched_.end() || found->second == events || foreign()) return;
  control(fd, events);
}

void EpollPoller::prepare() noexcept {
  for (auto* word : words_) word->store(1, std::memory_order_relaxed);
  parked_.store(1, std::memory_order_seq_cst);
  full_fence();
}

void EpollPoller::cancel() noexcept {
  for (auto* word : words_) word->store(0, std::memory_order_relaxed);
  parked_.store(0, std::memory_order_relaxed);
}

int EpollPoller::sleep(epoll_event* events, int count, Duration timeout) noexcept {
  timeout = std::clamp<Duration>(timeout, 0ns, 24h);
  if (!coarse_) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
    const timespec time{.tv_sec = seconds.count(), .tv_nsec = (timeout - seconds).count()};
    const int n = ::epoll_pwait2(epoll_.get(), events, count, &time, nullptr);
    if (n >= 0 || (errno != ENOSYS && errno != EPERM)) return n;
    coarse_ = true;  // kernels before 5.11, and old container filters
  }
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(timeout);
  return ::epoll_wait(epoll_.get(), events, count, static_cast<int>(milliseconds.count()));
}

void EpollPoller::wait(Duration timeout) noexcept {
  if (!unwatched_.empty()) timeout = std::min(timeout, kBlindSleep);
  constexpr int kCount = 8;
  epoll_event events[kCount];
  const int n = sleep(events, kCount, timeout);
  cancel();
  bool rang = n == kCount;  // the doorbell may hide behind eight others
  for (int i = 0; i < n; ++i) rang |= events[i].data.fd == doorbell_->get();
  if (!rang) return;
  // Whoever rang had stored before, and the caller looks at everything now.
  std::uint64_t rings = 0;
  if (::read(doorbell_->get(), &rings, sizeof rings) < 0) rings = 0;
}

void EpollPoller::poll(std::vector<int>& ready) noexcept {
  // The doorbell is left alone here: a ring between prepare() and wait() must end that wait().
  events_.resize(watched_.size() + 1);
  const int n = ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), 0);
  for (int i = 0; i < n; ++i)
    if (events_[static_cast<std::size_t>(i)].data.fd != doorbell_->get())
      ready.push_back(events_[static_cast<std::size_t>(i)].data.fd);
  ready.insert(ready.end(), unwatched_.begin(), unwatched_.end());
}

void EpollPoller::wake() noexcept {
  full_fence();
  if (parked_.load(std::memory_order_relaxed) != 0) ring(*doorbell_);
}

void EpollPoller::announce_in(std::atomic<std::uint32_t>& parked) { words_.push_back(&parked); }

void EpollPoller::forget(std::atomic<std::uint32_t>& parked) noexcept { std::erase(words_, &parked); }

std::unique_ptr<Poller> make_epoll_poller() { return value_or_throw(EpollPoller::create()); }

}  // namespace unisono::transport
