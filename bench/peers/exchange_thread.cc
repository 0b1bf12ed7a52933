/// A plain exchange on one socket in a thread of its own, for a program in Python that computes meanwhile (ctypes; unisono_overlap.py): what an
/// asynchronous all_reduce of two ranks has to move, without a reduction and without a library. Built as a shared object.

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <semaphore>
#include <thread>
#include <vector>

#include "sockets.h"

namespace {

/// Thread-safety: of one thread, which begins and waits by turns.
class Exchanger {
 public:
  Exchanger(int fd, std::size_t bytes) : fd_(fd), out_(bytes, 1), in_(bytes), thread_([this] { serve(); }) {
    const int one = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  }
  ~Exchanger() {
    over_ = true;
    begun_.release();
    thread_.join();
    ::close(fd_);
  }
  Exchanger(const Exchanger&) = delete;
  Exchanger& operator=(const Exchanger&) = delete;

  void begin() { begun_.release(); }
  void wait() { done_.acquire(); }

 private:
  void serve() {
    for (begun_.acquire(); !over_; begun_.acquire()) {
      exchange(fd_, out_.data(), out_.size(), in_.data(), in_.size());
      done_.release();
    }
  }

  int fd_;
  std::vector<char> out_, in_;
  bool over_ = false;  // written before begun_ is released
  std::binary_semaphore begun_{0}, done_{0};
  std::thread thread_;  // the last one: it uses all of these
};

int accept_one(sockaddr_in address) {
  const int listener = listen_at(address, Pace::none), fd = ::accept(listener, nullptr, nullptr);
  if (fd < 0) die("accept");
  ::close(listener);
  return fd;
}

}  // namespace

/// One side listens at the address, the other one calls.
extern "C" Exchanger* exchange_open(const char* address, int port, int listens, std::size_t bytes) {
  const sockaddr_in where = address_of(address, port);
  return std::make_unique<Exchanger>(listens != 0 ? accept_one(where) : call(where, Pace::none), bytes).release();
}
extern "C" void exchange_begin(Exchanger* exchanger) { exchanger->begin(); }
extern "C" void exchange_wait(Exchanger* exchanger) { exchanger->wait(); }
extern "C" void exchange_close(Exchanger* exchanger) { const std::unique_ptr<Exchanger> owned(exchanger); }
