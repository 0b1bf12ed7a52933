#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "cli/launcher_job.h"

namespace unisono::cli::launcher {

void Launcher::finish() {
  if (store_ && o_.nodes > 1) store_->wait_until_idle(std::chrono::seconds(3));  // other nodes may still read
  for (const Rank& rank : ranks_) ::kill(-rank.process.pid, SIGKILL);            // what they left running
  guard_->dismiss();
  end_all_children();
  for (Rank& rank : ranks_) {
    for (Stream* stream : {&rank.output, &rank.error}) {
      drain(*stream, now(), true);
      end(*stream);  // somebody out of reach may still hold it
    }
  }
  out().end();
  err_.end();
  on_lost_output();
}

/// When there are no ranks any more: whether a signal came that ends programs.
bool Launcher::told_to_end() {
  signalfd_siginfo info{};
  while (::read(signals_.fd(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
    if (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP) return true;
    if (info.ssi_signo == SIGTSTP) terminal_.stop_here();
  }
  return false;
}

/// Wait for whoever reads, as any program does at its end; but a job that was told to end has
/// little time for that.
void Launcher::flush() {
  const bool in_haste = interrupted_ != 0 || out_of_time_;
  bool told = false, interrupted = false;
  while (out().waiting() + err_.waiting() > 0) {
    const auto if_waits = [](const LineSink& sink) { return sink.waiting() > 0 ? sink.fd() : -1; };
    std::array<pollfd, 3> sources{
        {{signals_.fd(), POLLIN, 0}, {if_waits(out()), POLLOUT, 0}, {if_waits(err_), POLLOUT, 0}}};
    const int n = ::poll(sources.data(), sources.size(), told ? -1 : static_cast<int>(o_.kill_after.count()));
    if (sources[0].revents != 0) interrupted = told_to_end();
    out().flush();
    err_.flush();
    const std::size_t left = out().waiting() + err_.waiting();
    if (left > 0 && (interrupted || (n == 0 && in_haste))) {
      out().drop();
      err_.drop();
      err_.write(fmt::format("unisono: nobody read the last {} bytes of output: dropped\n", left));
      return;
    }
    if (n == 0 && !std::exchange(told, true) && err_.waiting() == 0)
      say(fmt::format("the job has ended; {} bytes of output wait for whoever reads them (Ctrl-C drops them)", left));
  }
}

void Launcher::summarise() {
  if (cause_ == nullptr || out().closed()) return;
  const Rank& first = *cause_;
  const std::string why = interrupted_ != 0 ? fmt::format("ended by {}", signal_name(interrupted_))
                          : out_of_time_    ? "ended at its time limit"
                                            : "failed";
  say(fmt::format("the job {} after {:.1f} s; first was rank {} (pid {}): {}{}{}", why, elapsed(), first.number,
                  first.process.pid, to_string(*first.ending), describe_culprits(ends(), first.number),
                  describe_others(ends(), first.number)));
}

}  // namespace unisono::cli::launcher
