#include "transport/shm/resting_thread.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>

namespace unisono::transport::shm {

namespace {
constexpr std::size_t kStack = 256 << 10;  // libraries may have a good part of it for their thread-local memory
}

RestingThread::RestingThread(std::atomic<pid_t>& number) noexcept : number_(number), owner_(::getpid()) {}

Result<std::unique_ptr<RestingThread>> RestingThread::start(std::atomic<pid_t>& number) {
  std::unique_ptr<RestingThread> thread(new RestingThread(number));
  UNISONO_TRY(thread->create());
  return thread;
}

Status RestingThread::create() {
  // It has the signals blocked that its creator has blocked when it is created.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStack);
  const auto run = [](void* self) -> void* {
    static_cast<RestingThread*>(self)->rest();
    return nullptr;
  };
  const int error = ::pthread_create(&thread_, &attributes, run, this);
  ::pthread_attr_destroy(&attributes);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return Status::system("cannot create a thread that rests", error);
  started_ = true;
  ::pthread_setname_np(thread_, "unisono-rests");
  return {};
}

void RestingThread::rest() {
  number_.store(static_cast<pid_t>(::syscall(SYS_gettid)), std::memory_order_release);
  end_.acquire();
  number_.store(0, std::memory_order_release);
}

RestingThread::~RestingThread() {
  if (!started_ || ::getpid() != owner_) return;
  end_.release();
  ::pthread_join(thread_, nullptr);
}

}  // namespace unisono::transport::shm
