#include "transport/shm/process.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

namespace unisono::transport::shm {

Credentials credentials_of(int socket) noexcept {
  ucred found{};
  socklen_t size = sizeof found;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &found, &size) != 0) return {};
  return {found.pid, found.uid};
}

ProcessHandle process_of(int socket, pid_t pid) noexcept {
  int raw = -1;
  socklen_t size = sizeof raw;
  // Linux 6.5 knows the process itself, not a number that may have been given to another one since.
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &raw, &size) == 0) {
    Fd fd(raw);
    ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
    return {std::move(fd), 0};
  }
  if (pid <= 0) return {Fd(), ESRCH == errno ? ESRCH : EINVAL};
  Fd fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  const int error = fd ? 0 : errno;
  return {std::move(fd), error};
}

}  // namespace unisono::transport::shm
