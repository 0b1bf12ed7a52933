#include "transport/shm/lent_list.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace unisono::transport::shm {

namespace {

/// A child that shared its parent's memory would spoil both: it ends, and says why. Only system calls.
[[noreturn]] void end_child(std::string_view why) noexcept {
  constexpr std::string_view kWho =
      "unisono: a forked process ends at once, as registered memory could not be copied for it: ";
  for (const std::string_view part : {kWho, why, std::string_view("\n")})
    if (::write(STDERR_FILENO, part.data(), part.size()) < 0) break;
  ::_exit(1);
}

}  // namespace

LentList& LentList::of_process() {
  static LentList& list = *new LentList;
  return list;
}

Status LentList::ready() {
  if (watching_) return {};
  const int error = ::pthread_atfork([] { of_process().before_fork(); }, [] { of_process().in_parent(); },
                                     [] { of_process().in_child(); });
  if (error != 0) return Status::system("cannot have forked children get their own copy (pthread_atfork)", error);
  watching_ = true;
  return {};
}

Status LentList::remove(const Lent& lent, RegisteredMemory::Contents contents) noexcept {
  const std::lock_guard lock(mutex_);
  if (const int error = make_private({&lent, 1}, contents); error != 0)
    return Status::system("cannot give registered memory private pages again; it stays shared", error);
  std::erase_if(all_,
                [&](const Lent& l) { return l.at == lent.at && l.offset == lent.offset && l.inode == lent.inode; });
  return {};
}

void LentList::before_fork() noexcept {
  mutex_.lock();
  if (all_.empty()) return;
  forks_.fetch_add(1, std::memory_order_relaxed);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return;  // the child then ends at once
  done_ = {Fd(ends[0]), Fd(ends[1])};
}

/// Also after a fork that failed.
void LentList::in_parent() noexcept {
  done_[1].reset();
  if (done_[0]) {
    char none = 0;
    while (::read(done_[0].get(), &none, 1) < 0 && errno == EINTR) {
    }
  }
  done_[0].reset();
  mutex_.unlock();
}

void LentList::in_child() noexcept {
  if (!all_.empty()) {
    if (!done_[1]) end_child("the limit of open files is reached");
    done_[0].reset();
    if (make_private(all_, RegisteredMemory::Contents::kept) != 0) end_child("no memory, or /proc is not there");
    done_[1].reset();
    all_.clear();  // frees nothing
  }
  mutex_.unlock();
}

}  // namespace unisono::transport::shm
