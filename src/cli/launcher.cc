#include "cli/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "cli/launcher_environment.h"
#include "cli/launcher_guard.h"
#include "cli/launcher_output.h"
#include "cli/launcher_process.h"
#include "cli/launcher_scope.h"
#include "cli/launcher_stream.h"
#include "cli/launcher_terminal.h"
#include "cli/launcher_verdict.h"
#include "rendezvous/job_handshake.h"
#include "rendezvous/secret_source.h"
#include "rendezvous/store_server.h"

namespace unisono::cli {
namespace {

using std::chrono::milliseconds;

constexpr int kTimeLimitStatus = 124;
// How much of the ranks' output is kept for a reader that stalls, before they are made to wait, too: while they run, and
// while they end, when what holds them up would only delay that.
constexpr std::size_t kMostWaiting = std::size_t{256} << 10, kMostWaitingAtTheEnd = std::size_t{16} << 20;

TimePoint now() { return std::chrono::steady_clock::now(); }
std::string count_text(std::size_t ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }
double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

struct Rank {
  int number = 0;
  Process process;
  Stream output, error;
  std::optional<Ending> ending;
};

/// What an epoll event is about.
enum class Source : std::uint8_t { signals, exit, output, error };
std::uint64_t tag(Source source, std::size_t rank) { return (rank << 8) | static_cast<std::uint64_t>(source); }

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options) : o_(options), err_(options.error_fd) {
    if (!same_place(options.output_fd, options.error_fd)) own_out_.emplace(options.output_fd);
  }
  int run();

 private:
  int refuse(const Status& why, int exit_status);
  Status prepare();
  Status start(std::size_t local);
  Status watch(int fd, Source source, std::size_t rank);
  Result<Fd> open_stream(Stream& stream, LineSink& sink, int rank, Source source, std::size_t local);
  int run_job();
  void loop();
  std::vector<epoll_event> wait(TimePoint until);
  bool reads(const LineSink& sink) const {
    return sink.waiting() < (phase_ == Phase::running ? kMostWaiting : kMostWaitingAtTheEnd);
  }
  TimePoint limit() const {
    return o_.time_limit > milliseconds{0} && !out_of_time_ ? saturating_add(start_, o_.time_limit) : TimePoint::max();
  }
  void on_signal();
  void on_exit(Rank& rank);
  TimePoint show_what_waits();
  void on_lost_output();
  void on_deadline();
  void on_closed_output();
  void end_soon(Duration grace);
  void signal_all(int signal);
  void finish();
  void summarise();
  void flush();
  bool told_to_end();
  std::size_t running() const {
    return static_cast<std::size_t>(std::ranges::count_if(ranks_, [](const Rank& r) { return !r.ending; }));
  }
  void say(std::string_view text) { err_.say(fmt::format("unisono: {}\n", text)); }
  void signal_at_once(int signal);
  void suspend();
  std::vector<RankEnd> ends() const {
    std::vector<RankEnd> result;
    for (const Rank& rank : ranks_) result.push_back({rank.number, rank.process.pid, rank.ending});
    return result;
  }
  double elapsed() const { return seconds(now() - start_); }

  /// How far the end of a job that will not end well has come.
  enum class Phase : std::uint8_t { running, grace, terminating, killing };

  const LaunchOptions& o_;
  LineSink err_;
  std::optional<LineSink> own_out_;  // none: standard output and error go to one place
  LineSink& out() { return own_out_ ? *own_out_ : err_; }
  Terminal terminal_;
  bool somebody_answers_ = terminal_.readable() || somebody_writes_to(0);
  BlockedSignals signals_;
  Subreaper subreaper_;
  RaisedFileLimit file_limit_;
  std::optional<Guard> guard_;
  Job job_;
  std::unique_ptr<rendezvous::StoreServer> store_;
  Fd secret_, null_;
  Fd epoll_;                       // signals, and the ends of ranks
  Fd output_epoll_, error_epoll_;  // the ranks' streams
  ProcessSetup setup_;
  RankBinding binding_;
  std::vector<Rank> ranks_;
  TimePoint start_ = now();
  Phase phase_ = Phase::running;
  TimePoint deadline_ = TimePoint::max();  // of the phase
  const Rank* first_failure_ = nullptr;
  double failed_after_ = 0;
  int interrupted_ = 0;             // by this signal
  bool interrupted_first_ = false;  // by Ctrl-C, before any rank failed: what ranks say of it does not matter then
  bool out_of_time_ = false;
};

int Launcher::refuse(const Status& why, int exit_status) {
  say(why.message());
  return exit_status;
}

int Launcher::run() {
  const int status = run_job();
  flush();
  return status;
}

int Launcher::run_job() {
  if (o_.command.empty()) return refuse(Status::invalid("no program to run: unisono run -n 4 -- PROGRAM ARGUMENTS"), 2);
  auto job = plan_job(o_);
  if (!job) return refuse(job.status(), 2);
  job_ = std::move(*job);
  int exit_status = 2;
  auto program = find_program(o_.command.front(), exit_status);
  if (!program) return refuse(program.status(), exit_status);
  setup_.program = std::move(*program);
  auto binding = plan_binding(o_.bind, o_.ranks, variable_of_ranks(o_, "UNISONO_TOPOLOGY"));
  if (!binding) return refuse(binding.status(), 2);
  binding_ = std::move(*binding);
  if (!binding_.line.empty()) say(binding_.line);
  if (Status s = prepare(); !s.ok()) return refuse(s, 1);
  ranks_.resize(static_cast<std::size_t>(o_.ranks));
  Status started;
  for (std::size_t local = 0; local < ranks_.size() && started.ok(); local++) started = start(local);
  if (!started.ok()) {
    std::erase_if(ranks_, [](const Rank& r) { return r.process.pid < 0; });
    finish();
    return refuse(started, 126);
  }
  loop();
  finish();
  summarise();
  if (out_of_time_) return kTimeLimitStatus;
  if (out().closed()) return 128 + SIGPIPE;
  if (first_failure_ != nullptr && interrupted_first_) return 128 + SIGINT;
  return first_failure_ != nullptr ? first_failure_->ending->exit_status() : 0;
}

Status Launcher::prepare() {
  auto guard = Guard::start();  // the first fork, before there is a second thread
  if (!guard) return guard.status();
  guard_.emplace(std::move(*guard));
  if (job_.serves) {
    rendezvous::StoreServerOptions options;
    options.handshake =
        rendezvous::make_handshake_factory(PeerId{}, job_.name, job_.secret, rendezvous::Purpose::store);
    options.any_address_if_not_ours = true;  // there is always a secret
    auto store = rendezvous::StoreServer::start(job_.store, std::move(options));
    if (!store) return store.status();
    store_ = std::move(*store);
  }
  auto secret = rendezvous::make_secret_fd(job_.secret);
  if (!secret) return secret.status();
  secret_ = std::move(*secret);
  for (Fd* epoll : {&epoll_, &output_epoll_, &error_epoll_}) *epoll = Fd(::epoll_create1(EPOLL_CLOEXEC));
  null_ = Fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!epoll_ || !output_epoll_ || !error_epoll_ || !null_) return Status::system("cannot prepare the launch", errno);
  setup_.arguments = o_.command;
  setup_.inherited = secret_.get();
  setup_.signal_mask = signals_.before();
  setup_.open_files = file_limit_.before();
  return watch(signals_.fd(), Source::signals, 0);
}

Status Launcher::watch(int fd, Source source, std::size_t rank) {
  epoll_event e{};
  e.events = EPOLLIN;
  e.data.u64 = tag(source, rank);
  const Fd& epoll = source == Source::output ? output_epoll_ : source == Source::error ? error_epoll_ : epoll_;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &e) != 0) return Status::system("cannot watch a descriptor", errno);
  return {};
}

/// Returns the writing end.
Result<Fd> Launcher::open_stream(Stream& stream, LineSink& sink, int rank, Source source, std::size_t local) {
  auto writer = open_pipe(stream);
  if (!writer) return writer.status();
  const bool prefixed = o_.output != OutputMode::plain;
  if (!o_.log_only)
    stream.lines =
        std::make_unique<LineCutter>(prefixed ? rank_prefix(rank, sink.is_terminal()) : "", !prefixed, &sink);
  stream.quiet = sink.is_terminal()               ? milliseconds{100}
                 : somebody_answers_ && rank == 0 ? milliseconds{500}
                                                  : Duration::max();
  if (!o_.log_dir.empty()) UNISONO_TRY(open_log(stream, o_.log_dir, rank, source == Source::output ? "out" : "err"));
  UNISONO_TRY(watch(stream.fd.get(), source, local));
  return writer;
}

Status Launcher::start(std::size_t local) {
  Rank& rank = ranks_[local];
  rank.number = o_.node_rank * o_.ranks + static_cast<int>(local);
  Fd output;
  if (o_.output != OutputMode::rank_zero) {
    auto writer = open_stream(rank.output, out(), rank.number, Source::output, local);
    if (!writer) return writer.status();
    output = std::move(*writer);
  }
  auto error = open_stream(rank.error, err_, rank.number, Source::error, local);
  if (!error) return error.status();
  // One rank can have the input. A terminal's it can read from a session of its own, where the kernel does not stop
  // it; a job in the background has no business there.
  const bool has_input =
      rank.number == 0 && (terminal_.readable() || (::isatty(0) == 0 && (::fcntl(0, F_GETFL) & O_ACCMODE) != O_WRONLY));
  setup_.own_session = has_input && terminal_.readable();
  setup_.input = has_input ? 0 : null_.get();
  setup_.output = output ? output.get() : rank.number == 0 ? o_.output_fd : null_.get();
  setup_.error = error->get();
  setup_.environment = environment_of_rank(o_, job_, static_cast<int>(local), secret_.get());
  const RunsOn here(binding_.processors.empty() ? std::vector<int>{} : binding_.processors[local]);
  if (!here.status().ok()) return here.status().with_context(fmt::format("rank {}, --bind", rank.number));
  auto process = start_process(setup_);
  if (!process) return process.status().with_context(fmt::format("rank {}", rank.number));
  rank.process = std::move(*process);
  guard_->watch(rank.process.pid);
  return watch(rank.process.pidfd.get(), Source::exit, local);
}

// --- while it runs ----------------------------------------------------------------------------------------------------

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
    // Of those that ended in one moment, one that a signal killed is the likelier cause than one that gave up.
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
  if (rank.ending->ok() || first_failure_ != nullptr) return;
  first_failure_ = &rank;
  failed_after_ = elapsed();
  if (phase_ != Phase::running) return;  // it was told to end
  const std::size_t others = running();
  if (others == 0) return;  // the summary comes at once
  std::string text = fmt::format("rank {} (pid {}) failed after {:.1f} s: {}", rank.number, rank.process.pid,
                                 failed_after_, to_string(*rank.ending));
  if (rank.ending->by_signal && rank.ending->status == SIGKILL) text += " (out of memory? `dmesg` tells)";
  text += fmt::format("; the other {} {:.1f} s to say what they saw",
                      others == 1 ? "rank has" : fmt::format("{} ranks have", others), seconds(o_.grace));
  say(text);
  end_soon(o_.grace);
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

/// To each rank's process group. Ended ranks are zombies until the end of the job, so no group is anybody else's.
void Launcher::signal_all(int signal) {
  for (const Rank& rank : ranks_)
    if (!rank.ending) ::kill(-rank.process.pid, signal);
}

/// None runs on before all have it: the first one to react makes the others' operations fail, and they would tell of
/// that rather than of the signal.
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

// --- its end ------------------------------------------------------------------------------------------------------------

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

/// Wait for whoever reads, as any program does at its end; but a job that was told to end has little time for that.
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
  if (first_failure_ == nullptr || out().closed()) return;
  const Rank& first = *first_failure_;
  const std::string why = interrupted_ != 0 ? fmt::format("ended by {}", signal_name(interrupted_))
                          : out_of_time_    ? "ended at its time limit"
                                            : "failed";
  say(fmt::format("the job {} after {:.1f} s; first was rank {} (pid {}): {}{}", why, elapsed(), first.number,
                  first.process.pid, to_string(*first.ending), describe_others(ends(), first.number)));
}

}  // namespace

int launch(const LaunchOptions& options) {
  try {
    return Launcher(options).run();
  } catch (const std::exception& e) {
    const std::string text = fmt::format("unisono: the launcher failed: {}\n", e.what());
    (void)!::write(options.error_fd, text.data(), text.size());
    return 1;
  }
}

}  // namespace unisono::cli
