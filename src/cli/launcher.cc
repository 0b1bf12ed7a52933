#include "cli/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "cli/launcher_job.h"
#include "rendezvous/job_handshake.h"
#include "rendezvous/secret_source.h"
#include "rendezvous/served_by.h"

namespace unisono::cli {
namespace launcher {

constexpr int kTimeLimitStatus = 124;

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
  find_cause();
  summarise();
  if (out_of_time_) return kTimeLimitStatus;
  if (out().closed()) return 128 + SIGPIPE;
  if (first_failure_ != nullptr && interrupted_first_) return 128 + SIGINT;
  return cause_ != nullptr ? cause_->ending->exit_status() : 0;
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
    rendezvous::say_who_serves(*store_, rendezvous::kLauncher);
  }
  auto secret = rendezvous::make_secret_fd(job_.secret);
  if (!secret) return secret.status();
  secret_ = std::move(*secret);
  auto door = rendezvous::SecretDoor::open(job_.secret, Logger());
  if (!door) return door.status();
  door_.emplace(std::move(*door));
  job_.door = door_->name();
  for (Fd* epoll : {&epoll_, &output_epoll_, &error_epoll_}) *epoll = Fd(::epoll_create1(EPOLL_CLOEXEC));
  null_ = Fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!epoll_ || !output_epoll_ || !error_epoll_ || !null_) return Status::system("cannot prepare the launch", errno);
  setup_.arguments = o_.command;
  setup_.inherited = secret_.get();
  setup_.signal_mask = signals_.before();
  setup_.open_files = file_limit_.before();
  UNISONO_TRY(reports_.open());
  job_.reports = reports_.name();
  UNISONO_TRY(watch(reports_.fd(), Source::reports, 0));
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
  // One rank can have the input. A terminal's it can read from a session of its own, where the
  // kernel does not stop it; a job in the background has no business there.
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

}  // namespace launcher

int launch(const LaunchOptions& options) {
  try {
    return launcher::Launcher(options).run();
  } catch (const std::exception& e) {
    const std::string text = fmt::format("unisono: the launcher failed: {}\n", e.what());
    (void)!::write(options.error_fd, text.data(), text.size());
    return 1;
  }
}

}  // namespace unisono::cli
