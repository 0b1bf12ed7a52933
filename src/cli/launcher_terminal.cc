#include "cli/launcher_terminal.h"

#include <signal.h>
#include <unistd.h>

#include <cstring>

namespace unisono::cli {
namespace {
bool in_foreground() { return ::tcgetpgrp(0) == ::getpgrp(); }
}  // namespace

Terminal::Terminal() { readable_ = ::isatty(0) == 1 && in_foreground() && ::tcgetattr(0, &first_) == 0; }

Terminal::~Terminal() {
  termios now{};
  if (readable_ && ::tcgetattr(0, &now) == 0 && std::memcmp(&now, &first_, sizeof now) != 0) set(first_);
}

/// A process in the background has the shell's settings to leave alone.
void Terminal::set(const termios& how) const {
  if (in_foreground()) (void)::tcsetattr(0, TCSADRAIN, &how);
}

void Terminal::stop_here() {
  termios now{};
  const bool known = readable_ && ::tcgetattr(0, &now) == 0;
  if (known) set(first_);
  sigset_t stop, before;
  ::sigemptyset(&stop);
  ::sigaddset(&stop, SIGTSTP);
  ::raise(SIGTSTP);
  ::pthread_sigmask(SIG_UNBLOCK, &stop, &before);  // it stops here
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (known) set(now);
}

}  // namespace unisono::cli
