#include "cli/launcher_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>

namespace unisono::cli {
namespace {

constexpr pid_t kDismissed = 0;
constexpr std::size_t kMostGroups = 65536;

/// In the guard. Only system calls: it is the fork of a process that may have had threads.
[[noreturn]] void guard(int pipe) {
  ::setsid();  // a SIGKILL or hang-up of the launcher's group is not for the guard
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, nullptr);
  ::prctl(PR_SET_NAME, "unisono-guard");
  // Nothing of the launcher's is kept open: not its output, whose reader waits for the end, nor its store.
  if (::dup2(pipe, 0) < 0) ::_exit(1);
  if (::syscall(SYS_close_range, 1u, ~0u, 0u) != 0)
    for (int fd = 1; fd < 1024; fd++) ::close(fd);
  static std::array<pid_t, kMostGroups> groups;
  std::size_t count = 0;
  for (;;) {
    pid_t group = 0;
    const ssize_t n = ::read(0, &group, sizeof group);  // writes this small are never split
    if (n < 0 && errno == EINTR) continue;
    if (n != static_cast<ssize_t>(sizeof group)) break;
    if (group == kDismissed) ::_exit(0);
    if (count < groups.size()) groups[count++] = group;
  }
  for (std::size_t i = 0; i < count; i++) ::kill(-groups[i], SIGKILL);
  ::_exit(0);
}

}  // namespace

Result<Guard> Guard::start() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::system("cannot make a pipe", errno);
  Fd reader(ends[0]), writer(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return Status::system("cannot start the guard process", errno);
  if (pid == 0) guard(reader.get());
  return Guard(std::move(writer), pid);
}

void Guard::watch(pid_t group) noexcept { (void)!::write(pipe_.get(), &group, sizeof group); }

void Guard::dismiss() noexcept {
  if (pid_ < 0) return;
  watch(kDismissed);
  pipe_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace unisono::cli
