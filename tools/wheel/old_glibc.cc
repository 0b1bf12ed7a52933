// What this library calls, or the compiler's headers make it call, and glibc 2.28 has not. Linked
// into wheels alone, hidden. tools/wheel/old_glibc.py says how.

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>

extern "C" {

// Since 2.32: whether the process had one thread only ever. False is always right, and costs an
// atomic instruction more.
char __libc_single_threaded = 0;

// Since 2.33. Before, inline functions in sys/stat.h called these, with the number of struct stat's
// layout.
int __xstat(int layout, const char* path, struct stat* out);
int __lxstat(int layout, const char* path, struct stat* out);
int __fxstat(int layout, int fd, struct stat* out);
int __fxstatat(int layout, int fd, const char* path, struct stat* out, int flags);

int __xstat64(int layout, const char* path, struct stat64* out);
int __lxstat64(int layout, const char* path, struct stat64* out);
int __fxstat64(int layout, int fd, struct stat64* out);

#ifdef __x86_64__
constexpr int kLayout = 1;
#else
constexpr int kLayout = 0;
#endif

int stat(const char* __restrict path, struct stat* __restrict out) { return __xstat(kLayout, path, out); }
int lstat(const char* __restrict path, struct stat* __restrict out) { return __lxstat(kLayout, path, out); }
int fstat(int fd, struct stat* out) { return __fxstat(kLayout, fd, out); }
int fstatat(int fd, const char* __restrict path, struct stat* __restrict out, int flags) {
  return __fxstatat(kLayout, fd, path, out, flags);
}

int stat64(const char* __restrict path, struct stat64* __restrict out) { return __xstat64(kLayout, path, out); }
int lstat64(const char* __restrict path, struct stat64* __restrict out) { return __lxstat64(kLayout, path, out); }
int fstat64(int fd, struct stat64* out) { return __fxstat64(kLayout, fd, out); }

// Since 2.30: libstdc++ waits with it until a time of the steady clock. Here the time left is
// waited for by the wall clock. When that clock was set meanwhile the wait ends early, which every
// waiter must expect, or late by as much.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* until) {
  const auto difference = [](const timespec& a, const timespec& b) {
    return (a.tv_sec - b.tv_sec) * 1'000'000'000 + (a.tv_nsec - b.tv_nsec);
  };
  timespec now{}, wall{};
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &wall);
  const long left = difference(*until, now);
  if (left <= 0) return ETIMEDOUT;
  const long end = wall.tv_nsec + left % 1'000'000'000;
  wall.tv_sec += left / 1'000'000'000 + end / 1'000'000'000;
  wall.tv_nsec = end % 1'000'000'000;
  const int result = pthread_cond_timedwait(condition, mutex, &wall);
  clock_gettime(clock, &now);
  return result == ETIMEDOUT && difference(*until, now) > 0 ? 0 : result;
}

// Since 2.35. A kernel without it (before 5.11) answers ENOSYS.
int epoll_pwait2(int epoll, epoll_event* events, int count, const timespec* timeout, const sigset_t* mask) {
  return static_cast<int>(
      syscall(SYS_epoll_pwait2, epoll, events, count, timeout, mask, static_cast<size_t>(_NSIG / 8)));
}

// Since 2.32.
const char* sigabbrev_np(int signal) {
  struct Name {
    int signal;
    const char* name;
  };
  static constexpr Name kNames[] = {
      {SIGHUP, "HUP"},   {SIGINT, "INT"},     {SIGQUIT, "QUIT"}, {SIGILL, "ILL"},   {SIGTRAP, "TRAP"},
      {SIGABRT, "ABRT"}, {SIGBUS, "BUS"},     {SIGFPE, "FPE"},   {SIGKILL, "KILL"}, {SIGUSR1, "USR1"},
      {SIGSEGV, "SEGV"}, {SIGUSR2, "USR2"},   {SIGPIPE, "PIPE"}, {SIGALRM, "ALRM"}, {SIGTERM, "TERM"},
      {SIGCHLD, "CHLD"}, {SIGCONT, "CONT"},   {SIGSTOP, "STOP"}, {SIGTSTP, "TSTP"}, {SIGTTIN, "TTIN"},
      {SIGTTOU, "TTOU"}, {SIGURG, "URG"},     {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"}, {SIGVTALRM, "VTALRM"},
      {SIGPROF, "PROF"}, {SIGWINCH, "WINCH"}, {SIGIO, "IO"},     {SIGPWR, "PWR"},   {SIGSYS, "SYS"}};
  for (const Name& each : kNames)
    if (each.signal == signal) return each.name;
  return nullptr;
}

}  // extern "C"
