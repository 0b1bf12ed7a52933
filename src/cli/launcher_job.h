#pragma once
/// One job: launcher.cc starts it, launcher_loop.cc attends to it while it runs, launcher_end.cc
/// ends it.

#include <fmt/format.h>
#include <sys/epoll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "cli/launcher.h"
#include "cli/launcher_environment.h"
#include "cli/launcher_guard.h"
#include "cli/launcher_output.h"
#include "cli/launcher_process.h"
#include "cli/launcher_reports.h"
#include "cli/launcher_scope.h"
#include "cli/launcher_stream.h"
#include "cli/launcher_terminal.h"
#include "cli/launcher_verdict.h"
#include "rendezvous/secret_door.h"
#include "rendezvous/store_server.h"

namespace unisono::cli::launcher {

using std::chrono::milliseconds;

inline TimePoint now() { return std::chrono::steady_clock::now(); }
inline double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }
inline std::string count_text(std::size_t ranks) { return fmt::format("{} rank{}", ranks, ranks == 1 ? "" : "s"); }

struct Rank {
  int number = 0;
  Process process;
  Stream output, error;
  std::optional<Ending> ending;
  bool ended_by_us = false;
  std::vector<Culprit> culprits;
};

/// What an epoll event is about.
enum class Source : std::uint8_t { signals, reports, exit, output, error };
inline std::uint64_t tag(Source source, std::size_t rank) { return (rank << 8) | static_cast<std::uint64_t>(source); }

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
  bool reads(const LineSink& sink) const;
  TimePoint limit() const {
    return o_.time_limit > milliseconds{0} && !out_of_time_ ? saturating_add(start_, o_.time_limit) : TimePoint::max();
  }
  void on_signal();
  void on_exit(Rank& rank);
  void tell_who_joins(const Rank& rank);
  void take_reports();
  void find_cause();
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
    for (const Rank& rank : ranks_)
      result.push_back({rank.number, rank.process.pid, rank.ending, rank.ended_by_us, rank.culprits});
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
  std::optional<rendezvous::SecretDoor> door_;
  Reports reports_;
  Fd secret_, null_;
  Fd epoll_;                       // signals, and the ends of ranks
  Fd output_epoll_, error_epoll_;  // the ranks' streams
  ProcessSetup setup_;
  RankBinding binding_;
  std::vector<Rank> ranks_;
  TimePoint start_ = now();
  Phase phase_ = Phase::running;
  TimePoint deadline_ = TimePoint::max();  // of the phase
  const Rank* first_failure_ = nullptr;    // that was seen
  const Rank* cause_ = nullptr;            // of it, once it is known
  int interrupted_ = 0;                    // by this signal
  bool interrupted_first_ = false;  // by Ctrl-C, before any rank failed: what ranks say of it does not matter then
  bool out_of_time_ = false;
};

}  // namespace unisono::cli::launcher
