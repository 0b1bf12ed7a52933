#include "cli/launcher_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace unisono::cli {
namespace {

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const auto& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// In the child, in the launcher's memory: nothing but system calls from here to exec.
[[noreturn]] void become(const ProcessSetup& s, pid_t launcher, int report, char* const* argv, char* const* envp) {
  if (s.own_session)
    ::setsid();  // the terminal is then not the one that controls it, so that reading from it does not stop it
  else
    ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(1);  // it died before the line above
  const bool in_place = ::dup2(s.input, 0) >= 0 && ::dup2(s.output, 1) >= 0 && ::dup2(s.error, 2) >= 0;
  if (in_place && (s.inherited < 0 || ::fcntl(s.inherited, F_SETFD, 0) == 0)) {
    ::setrlimit(RLIMIT_NOFILE, &s.open_files);
    ::signal(SIGPIPE, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &s.signal_mask, nullptr);
    ::execve(s.program.c_str(), argv, envp);
  }
  const int error = errno;
  (void)!::write(report, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Result<Process> start_process(const ProcessSetup& setup) {
  const auto argv = pointers_to(setup.arguments), envp = pointers_to(setup.environment);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status::system("cannot make a pipe", errno);
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const pid_t launcher = ::getpid();
  // The child borrows our memory until exec, as posix_spawn's does, so nothing of it is copied, and the next rank starts sooner. No
  // handler of a signal runs there, as we have none. posix_spawn itself cannot ask for the parent-death signal.
  const pid_t pid = ::vfork();  // NOLINT
  if (pid < 0) return Status::system("cannot start a process (ulimit -u?)", errno);
  if (pid == 0) become(setup, launcher, writer.get(), argv.data(), envp.data());  // NOLINT
  if (!setup.own_session) ::setpgid(pid, pid);  // here too: whoever comes first, the group is there when we return
  writer.reset();
  int error = 0;
  ssize_t n;
  do n = ::read(reader.get(), &error, sizeof error);
  while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(sizeof error)) {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return Status::system(
        fmt::format("cannot run {}{}", setup.program,
                    error == ENOEXEC ? " (neither a program of this machine nor a script with a #! line)" : ""),
        error);
  }
  Process process;
  process.pid = pid;
  process.pidfd = Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0u)));
  if (!process.pidfd) {
    const int why = errno;
    ::kill(-pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return Status::system("cannot watch a process (pidfd_open needs Linux 5.3)", why);
  }
  return process;
}

std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

std::string to_string(const Ending& e) {
  if (!e.by_signal) return fmt::format("exited with status {}", e.status);
  return fmt::format("killed by signal {} ({}{})", e.status, signal_name(e.status), e.dumped ? ", core dumped" : "");
}

std::optional<Ending> ending_of(const Process& process) {
  siginfo_t info{};
  constexpr auto kByPidfd = static_cast<idtype_t>(3);  // P_PIDFD
  if (::waitid(kByPidfd, static_cast<id_t>(process.pidfd.get()), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0)
    return std::nullopt;
  return Ending{info.si_status, info.si_code != CLD_EXITED, info.si_code == CLD_DUMPED};
}

void end_all_children() {
  // What a rank left behind is our child now. Each round may free the children of those it killed.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < deadline) {
    std::error_code ignored;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", ignored)) {
      std::ifstream children(task.path() / "children");
      for (pid_t pid = 0; children >> pid;) ::kill(pid, SIGKILL);
    }
    for (;;) {
      const pid_t reaped = ::waitpid(-1, nullptr, WNOHANG);
      if (reaped < 0 && errno == ECHILD) return;
      if (reaped == 0) break;
    }
    std::this_thread::sleep_for(
        std::chrono::milliseconds(1));  // between killing somebody and his end; nothing tells of both
  }
}

}  // namespace unisono::cli
