#include "transport/shm/lent_list.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace unisono::transport::shm {

namespace {

/// Only system calls, as others may have held locks when the child was made.
void say(std::string_view what, std::string_view why) noexcept {
  constexpr std::string_view kWho = "unisono: a forked process ";
  for (const std::string_view part : {kWho, what, why, std::string_view("\n")})
    if (::write(STDERR_FILENO, part.data(), part.size()) < 0) break;
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

Status LentList::add(const Lent& lent) {
  const std::lock_guard lock(mutex_);
  UNISONO_TRY(ready());
  all_.push_back(lent);
  return {};
}

void LentList::forget(const Lent& lent) noexcept {
  const std::lock_guard lock(mutex_);
  erase(lent);
}

void LentList::erase(const Lent& lent) noexcept {
  std::erase_if(all_,
                [&](const Lent& l) { return l.at == lent.at && l.offset == lent.offset && l.inode == lent.inode; });
}

Status LentList::remove(const Lent& lent, RegisteredMemory::Contents contents) noexcept {
  const std::lock_guard lock(mutex_);
  if (const int error = make_private(lent, contents); error != 0)
    return Status::system("cannot give registered memory private pages again; it stays shared", error);
  erase(lent);
  return {};
}

Status LentList::take_over(const Lent& lent, int fd) noexcept {
  const std::lock_guard lock(mutex_);
  if (const int error = shm::take_over(lent, fd); error != 0)
    return Status::system("cannot give shared memory private pages; it may still be written to", error);
  erase(lent);
  return {};
}

void LentList::drop_snapshot() noexcept {
  const std::lock_guard lock(mutex_);
  has_snapshot_.store(false, std::memory_order_relaxed);
  snapshot_.reset();
}

void LentList::before_fork() noexcept {
  mutex_.lock();
  if (all_.empty()) return;
  forks_.fetch_add(1, std::memory_order_relaxed);
  if (snapshot_ && snapshot_->still_right(all_)) return;
  snapshot_.reset();
  try {
    auto taken = Snapshot::take(all_);
    if (taken)
      snapshot_.emplace(std::move(taken).value());
    else
      no_snapshot_ = taken.status().message();
  } catch (const std::exception& e) {
    no_snapshot_ = e.what();
  }
  has_snapshot_.store(snapshot_.has_value(), std::memory_order_relaxed);
}

/// Also after a fork that failed.
void LentList::in_parent() noexcept {
  no_snapshot_.clear();
  mutex_.unlock();
}

void LentList::in_child() noexcept {
  if (!all_.empty()) {
    const int error = snapshot_ ? snapshot_->put(all_) : put_nothing(all_);
    if (error != 0) {  // one that shared its parent's memory would spoil both
      say("ends at once: it would share its parent's memory, as it cannot change its own", "");
      ::_exit(1);
    }
    if (!snapshot_)
      say("has no copy of its parent's registered and allocated memory, and ends with SIGSEGV where it touches it: ",
          no_snapshot_);
    all_.clear();  // frees nothing
  }
  if (snapshot_) snapshot_->leave_to_parent();
  has_snapshot_.store(false, std::memory_order_relaxed);
  mutex_.unlock();
}

}  // namespace unisono::transport::shm
