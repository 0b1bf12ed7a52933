#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

#include "cli/launcher_job.h"
#include "rendezvous/ended_ranks.h"
#include "rendezvous/host_identity.h"

namespace unisono::cli::launcher {

// How much of the ranks' output is kept for a reader that stalls, before they are made to wait,
// too: while they run, and while they end, when what holds them up would only delay that.
constexpr std::size_t kMostWaiting = std::size_t{256} << 10, kMostWaitingAtTheEnd = std::size_t{16} << 20;

bool Launcher::reads(const LineSink& sink) const {
  return sink.waiting() < (phase_ == Phase::running ? kMostWaiting : kMostWaitingAtTheEnd);
}

/// What happened, at the latest at `until`. A stream whose reader stalls is not read.
std::vector<epoll_event> Launcher::wait(TimePoint until) {
  int timeout = -1;
  if (until != TimePoint::max())
    timeout = static_cast<int>(
        std::clamp<std::int64_t>(std::chrono::ceil<milliseconds>(until - now()).count(), 0, 3600 * 1000));
  const auto if_so = [](bool so, int fd) { return so ? fd : -1; };
  std::array<pollfd, 5> sources{{{epoll_.get(), POLLIN, 0},
                                 {if_so(reads(out()), output_epoll_.get()), POLLIN, 0},
                                 {if_so(reads(err_), error_epoll_.get()), POLLIN, 0},
                                 {if_so(out().waiting() > 0, out().fd()), POLLOUT, 0},
                                 {if_so(err_.waiting() > 0, err_.fd()), POLLOUT, 0}}};
  (void)::poll(sources.data(), sources.size(), timeout);
  if (sources[3].revents != 0) out().flush();
  if (sources[4].revents != 0) err_.flush();
  std::vector<epoll_event> events;
  for (std::size_t i = 0; i < 3; i++) {
    if (sources[i].revents == 0) continue;
    std::array<epoll_event, 64> some{};
    const int n = ::epoll_wait(sources[i].fd, some.data(), static_cast<int>(some.size()), 0);
    events.insert(events.end(), some.begin(), some.begin() + std::max(n, 0));
  }
  return events;
}

void Launcher::loop() {
  while (running() > 0) {
    const std::vector<epoll_event> events = wait(std::min({deadline_, limit(), show_what_waits()}));
    std::vector<std::size_t> ended;
    for (const epoll_event& event : events) {
      const std::uint64_t what = event.data.u64;
      Rank& rank = ranks_[what >> 8];
      switch (static_cast<Source>(what & 0xff)) {
        case Source::signals:
          on_signal();
          break;
        case Source::reports:
          take_reports();
          break;
        case Source::output:
          drain(rank.output, now(), false);
          break;
        case Source::error:
          drain(rank.error, now(), false);
          break;
        case Source::exit:
          ended.push_back(what >> 8);
          break;
      }
    }
    // Of those that ended in one moment, one that a signal killed is the likelier cause than one
    // that gave up.
    std::ranges::stable_sort(ended, [this](std::size_t a, std::size_t b) {
      const auto x = ending_of(ranks_[a].process), y = ending_of(ranks_[b].process);
      return x && x->by_signal && !(y && y->by_signal);
    });
    for (const std::size_t i : ended) on_exit(ranks_[i]);
    if (out().closed()) on_closed_output();
    on_lost_output();
    if (now() >= limit()) {
      out_of_time_ = true;
      say(fmt::format("the time limit of {:.1f} s is reached: ending {}", seconds(o_.time_limit),
                      count_text(running())));
      end_soon(Duration{0});
    }
    if (now() >= deadline_) on_deadline();
  }
}

/// Beginnings of lines that nothing was added to for a while; returns when to look again.
TimePoint Launcher::show_what_waits() {
  TimePoint next = TimePoint::max();
  for (Rank& rank : ranks_)
    for (Stream* stream : {&rank.output, &rank.error}) {
      if (stream->lines == nullptr || stream->quiet == Duration::max() || !stream->lines->waits()) continue;
      const TimePoint due = saturating_add(stream->fed, stream->quiet);
      if (due > now())
        next = std::min(next, due);
      else
        stream->lines->show();
    }
  return next;
}

/// A full disk is no reason to lose hours of work: the ranks never see it.
void Launcher::on_lost_output() {
  if (const int error = out().take_error(); error != 0)
    say(
        fmt::format("standard output cannot be written: {}; what ranks print there is dropped from now on, the job "
                    "goes on",
                    std::strerror(error)));
  for (Rank& rank : ranks_)
    for (Stream* stream : {&rank.output, &rank.error})
      if (const int error = std::exchange(stream->log_error, 0); error != 0)
        say(fmt::format("the log of rank {} in {} cannot be written: {}; it ends there, the job goes on", rank.number,
                        o_.log_dir, std::strerror(error)));
}

void Launcher::on_signal() {
  signalfd_siginfo info{};
  while (::read(signals_.fd(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGUSR1 || signal == SIGUSR2) {
      signal_all(signal);
    } else if (signal == SIGTSTP) {
      suspend();
    } else if (interrupted_ != 0) {
      say(fmt::format("{} again: killing {}", signal_name(signal), count_text(running())));
      phase_ = Phase::killing;
      deadline_ = TimePoint::max();
      signal_all(SIGKILL);
    } else {
      interrupted_ = signal;
      interrupted_first_ = signal == SIGINT && first_failure_ == nullptr;
      say(fmt::format("{}: passed on to {}", signal_name(signal), count_text(running())));
      signal_at_once(signal);
      end_soon(o_.grace);
    }
  }
}

void Launcher::on_exit(Rank& rank) {
  rank.ending = ending_of(rank.process);
  if (!rank.ending) return;
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, rank.process.pidfd.get(), nullptr);  // it stays readable
  drain(rank.output, now(), true);  // what it said last comes before what we say of it
  drain(rank.error, now(), true);
  take_reports();  // and what its errors named, before we judge its end
  rank.ended_by_us = rank.ending->by_signal && phase_ >= Phase::terminating;
  tell_who_joins(rank);
  if (!rank.ending->ok() && first_failure_ == nullptr) {
    first_failure_ = &rank;
    if (phase_ == Phase::running) end_soon(o_.grace);
  }
  find_cause();
}

/// Ranks that wait for this one to join need not wait any longer. To those who have joined, its
/// links tell more.
void Launcher::tell_who_joins(const Rank& rank) {
  if (!store_) return;
  const auto here = rendezvous::this_host();
  store_->set_first(rendezvous::kEndedKey, rendezvous::encode({rank.number, o_.nodes * o_.ranks, rank.process.pid,
                                                               here ? here->host : "", to_string(*rank.ending)}));
}

void Launcher::take_reports() {
  for (const Report& report : reports_.read()) {
    const int local = report.rank - o_.node_rank * o_.ranks;
    if (local < 0 || local >= o_.ranks) continue;
    auto& culprits = ranks_[static_cast<std::size_t>(local)].culprits;
    if (report.culprit.rank != report.rank && std::ranges::find(culprits, report.culprit) == culprits.end())
      culprits.push_back(report.culprit);
  }
}

/// A rank that fails makes others fail, and one of those may be the first to end: ask whom their
/// errors name.
void Launcher::find_cause() {
  if (first_failure_ == nullptr || cause_ != nullptr) return;
  const auto number = first_in_cause(ends(), first_failure_->number);
  if (!number) return;
  cause_ = &ranks_[static_cast<std::size_t>(*number - o_.node_rank * o_.ranks)];
  const std::size_t others = running();
  if (others == 0 || phase_ > Phase::grace || interrupted_ != 0 || out().closed()) return;  // the summary tells
  std::string text = fmt::format("rank {} (pid {}) failed after {:.1f} s: {}", cause_->number, cause_->process.pid,
                                 elapsed(), to_string(*cause_->ending));
  if (cause_->ending->by_signal && cause_->ending->status == SIGKILL) text += " (out of memory? `dmesg` tells)";
  text += fmt::format("{}; the other {} {:.1f} s to say what they saw", describe_culprits(ends(), cause_->number),
                      others == 1 ? "rank has" : fmt::format("{} ranks have", others), seconds(o_.grace));
  say(text);
}

/// The reader of our output has gone, as with `| head`.
void Launcher::on_closed_output() {
  if (phase_ == Phase::running) end_soon(Duration{0});
}

void Launcher::end_soon(Duration grace) {
  if (phase_ != Phase::running && grace > Duration{0}) return;
  phase_ = Phase::grace;
  deadline_ = saturating_add(now(), grace);
}

void Launcher::on_deadline() {
  if (phase_ == Phase::grace) {
    phase_ = Phase::terminating;
    deadline_ = saturating_add(now(), o_.kill_after);
    if (running() > 0 && !out_of_time_ && !out().closed())
      say(fmt::format("ending {} that did not end by themselves (SIGTERM)", count_text(running())));
    signal_all(SIGTERM);
  } else if (phase_ == Phase::terminating) {
    phase_ = Phase::killing;
    deadline_ = TimePoint::max();
    say(fmt::format("killing {} that did not end on SIGTERM within {:.1f} s (SIGKILL)", count_text(running()),
                    seconds(o_.kill_after)));
    signal_all(SIGKILL);
  }
}

/// To each rank's process group. Ended ranks are zombies until the end of the job, so no group is
/// anybody else's.
void Launcher::signal_all(int signal) {
  for (const Rank& rank : ranks_)
    if (!rank.ending) ::kill(-rank.process.pid, signal);
}

/// None runs on before all have it: the first one to react makes the others' operations fail, and
/// they would tell of that rather than of the signal.
void Launcher::signal_at_once(int signal) {
  for (const int each : {SIGSTOP, signal, SIGCONT}) signal_all(each);
}

/// Ctrl-Z: the ranks stop with the launcher, and go on with it. That time does not count.
void Launcher::suspend() {
  const TimePoint since = now();
  signal_all(SIGSTOP);  // not SIGTSTP, which the kernel ignores in process groups that no shell looks after
  terminal_.stop_here();
  signal_all(SIGCONT);
  const Duration stopped = now() - since;
  start_ += stopped;
  if (deadline_ != TimePoint::max()) deadline_ = saturating_add(deadline_, stopped);
}

}  // namespace unisono::cli::launcher
