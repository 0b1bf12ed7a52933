#pragma once
/// In which process an object was made. A child of fork() has copies of its parent's objects, but
/// not what they stand for: threads, connections, shared memory.

#include <sys/types.h>

#include <atomic>
#include <string>

#include "base/status.h"

namespace unisono {

/// Thread-safety: any thread.
///
/// Costs a load, not a system call: the mark is on a page that the kernel wipes in children
/// (MADV_WIPEONFORK), also in those that were made by the bare system call, where no
/// pthread_atfork() handler runs. Where the kernel refuses that, each question is a getpid().
class ProcessMark {
 public:
  ProcessMark() noexcept;
  ~ProcessMark();
  ProcessMark(const ProcessMark&) = delete;
  ProcessMark& operator=(const ProcessMark&) = delete;

  /// Whether this is the process in which the mark was made.
  bool here() const noexcept { return page_ != nullptr ? page_->load(std::memory_order_relaxed) != 0 : same_pid(); }
  /// InvalidArgument, in which `what` ("store ...", "group ...") was made elsewhere, unless here().
  Status check(const std::string& what) const;

 private:
  bool same_pid() const noexcept;
  std::atomic<unsigned>* page_;
  pid_t pid_;
};

}  // namespace unisono
