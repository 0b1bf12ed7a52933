#pragma once
/// What the launcher changes of its process while a job runs, and puts back afterwards.

#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include <array>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/host_topology.h"

namespace unisono::cli {

/// Signals that concern the ranks.
inline constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP};

/// Signals come through a descriptor while this lives, and as before afterwards. Those that are ignored stay so: nohup, and shells
/// for what they start in the background, mean that for the whole job.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int s : kPassedOn) {
      struct sigaction now{};
      if (::sigaction(s, nullptr, &now) != 0 || now.sa_handler != SIG_IGN) ::sigaddset(&set, s);
    }
    fd_ = Fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
    ::sigaddset(&set, SIGPIPE);  // a reader of our output that goes away is an error of write
    ::sigaddset(&set, SIGXFSZ);  // and so is a file that becomes longer than `ulimit -f` allows
    ::pthread_sigmask(SIG_BLOCK, &set, &before_);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() {
    sigset_t done;  // the job went on in spite of it
    ::sigemptyset(&done);
    ::sigaddset(&done, SIGXFSZ);
    const timespec at_once{};
    (void)::sigtimedwait(&done, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  int fd() const noexcept { return fd_.get(); }
  const sigset_t& before() const noexcept { return before_; }

 private:
  Fd fd_;
  sigset_t before_{};
};

/// Orphaned descendants become our children while this lives.
class Subreaper {
 public:
  Subreaper() {
    (void)::prctl(PR_GET_CHILD_SUBREAPER, &before_);
    (void)::prctl(PR_SET_CHILD_SUBREAPER, 1);
  }
  Subreaper(const Subreaper&) = delete;
  Subreaper& operator=(const Subreaper&) = delete;
  ~Subreaper() { (void)::prctl(PR_SET_CHILD_SUBREAPER, before_); }

 private:
  int before_ = 0;
};

/// Three descriptors a rank: the usual soft limit of 1024 is not enough for many.
class RaisedFileLimit {
 public:
  RaisedFileLimit() {
    (void)::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit raised = before_;
    raised.rlim_cur = raised.rlim_max;
    (void)::setrlimit(RLIMIT_NOFILE, &raised);
  }
  RaisedFileLimit(const RaisedFileLimit&) = delete;
  RaisedFileLimit& operator=(const RaisedFileLimit&) = delete;
  ~RaisedFileLimit() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }
  const rlimit& before() const noexcept { return before_; }

 private:
  rlimit before_{};
};

/// This thread, and with it what it starts, runs on these processors while this lives; none: where it may anyway.
class RunsOn {
 public:
  explicit RunsOn(std::span<const int> cpus) {
    if (cpus.empty()) return;
    before_ = usable_cpus();
    status_ = run_on_cpus(cpus);
  }
  RunsOn(const RunsOn&) = delete;
  RunsOn& operator=(const RunsOn&) = delete;
  ~RunsOn() {
    if (!before_.empty()) (void)run_on_cpus(before_);
  }
  const Status& status() const noexcept { return status_; }

 private:
  std::vector<int> before_;
  Status status_;
};

}  // namespace unisono::cli
