#include "transport/socket/watch.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>

namespace unisono::transport {

Result<std::unique_ptr<Watch>> Watch::create() {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return Status::system("cannot create an epoll set", errno);
  return std::unique_ptr<Watch>(new Watch(std::move(epoll), ::getpid()));
}

bool Watch::foreign() const noexcept { return ::getpid() != owner_; }

Status Watch::add(int fd, std::uint64_t token, bool write) {
  epoll_event event{};
  event.events = write ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return Status::system("cannot watch a descriptor", errno);
}

void Watch::want_write(int fd, std::uint64_t token, bool write) {
  epoll_event event{};
  event.events = write ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = token;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
}

void Watch::remove(int fd) noexcept {
  if (fd >= 0 && !foreign()) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void Watch::ready(std::vector<std::uint64_t>& tokens) {
  constexpr int kCount = 64;  // level-triggered, and the kernel takes turns: the rest comes with the next call
  epoll_event events[kCount];
  const int n = ::epoll_wait(epoll_.get(), events, kCount, 0);
  for (int i = 0; i < n; ++i) tokens.push_back(events[i].data.u64);
}

}  // namespace unisono::transport
