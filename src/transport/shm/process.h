#pragma once
/// The process at the other end of a unix socket.

#include <sys/types.h>

#include "base/fd.h"

namespace unisono::transport::shm {

struct Credentials {
  pid_t pid = 0;  ///< 0: in a pid namespace that we cannot see
  uid_t uid = static_cast<uid_t>(-1);
};

/// Who connected, or who listened: the kernel's word, taken at connect() and listen().
Credentials credentials_of(int socket) noexcept;

/// A pidfd of that process; without one, `error` is an errno (ESRCH: it has ended already).
struct ProcessHandle {
  Fd fd;
  int error = 0;
};
ProcessHandle process_of(int socket, pid_t pid) noexcept;

}  // namespace unisono::transport::shm
