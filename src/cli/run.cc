/// `unisono run`: starts the ranks of a job on this host.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/commands.h"
#include "cli/launcher.h"

namespace unisono::cli {
namespace {

struct RunArguments {
  LaunchOptions launch;
  double time_limit = 0, grace = 5;
  bool no_prefix = false;
  std::string bind = "auto";
  std::vector<std::string> environment;
};

constexpr const char* kRunExamples = R"(Examples:
  unisono run -n 4 -- python train.py --epochs 3
  unisono run -n 4 --env UNISONO_TRANSPORT=tcp -- ./program
  unisono run -n 8 --bind core -- ./program
  unisono run -n 8 --nnodes 2 --node-rank 0 --rdzv node0:29400 --secret-file job.key -- python train.py

Every rank gets torchrun's variables (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, ...) and unisono's own. When a rank fails,
the others have a grace period to say what they saw, then they are ended; the exit status is that of the first failure.)";

std::chrono::milliseconds to_milliseconds(double seconds) {
  constexpr double kLongest = 100.0 * 365 * 86400;  // as good as none, and far from overflowing nanoseconds
  return std::chrono::milliseconds(std::llround(std::min(seconds, kLongest) * 1000));
}

int run(RunArguments& a) {
  a.launch.output = a.no_prefix ? OutputMode::plain : OutputMode::prefixed;
  a.launch.bind = *bind_mode_from_name(a.bind);
  a.launch.time_limit = to_milliseconds(a.time_limit);
  a.launch.grace = to_milliseconds(a.grace);
  for (const std::string& entry : a.environment) {
    const auto equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) {
      fmt::print(stderr, "unisono: --env {}: expected NAME=VALUE\n", entry);
      return 2;
    }
    a.launch.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return launch(a.launch);
}

}  // namespace

void add_run(CLI::App& app, int& status) {
  auto a = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "start the ranks of a job on this host");
  command->add_option("-n,--np,--nproc-per-node", a->launch.ranks, "ranks on this host")->required();
  command->add_option("--nnodes", a->launch.nodes, "hosts, each with its own `unisono run` and as many ranks");
  command->add_option("--node-rank", a->launch.node_rank, "which of the hosts this is, from 0");
  command->add_option("--rdzv", a->launch.rendezvous, "HOST:PORT where host 0 serves the store; for several hosts");
  command
      ->add_option("--secret-file", a->launch.secret_file,
                   "file (mode 0600) with the job secret, the same on all hosts; for several hosts")
      ->type_name("FILE");
  command->add_option("--timeout", a->time_limit, "end the job after so many seconds, with exit status 124")
      ->check(CLI::NonNegativeNumber);
  command->add_option("--grace", a->grace, "seconds between the first failure and the end of the others")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--bind", a->bind, kBindHelp)->check(CLI::IsMember(kBindNames))->capture_default_str();
  command->add_flag("--no-prefix", a->no_prefix, "pass every byte as it is, without [RANK]");
  auto* log_dir = command
                      ->add_option("--log-dir", a->launch.log_dir,
                                   "also write each rank's output, as it is, to rank-N.out and rank-N.err there")
                      ->type_name("DIR");
  command->add_flag("--log-only", a->launch.log_only, "with --log-dir: only there, nothing is shown")->needs(log_dir);
  command->add_option("--env", a->environment, "NAME=VALUE for every rank; may be repeated")->allow_extra_args(false);
  command->add_option("command", a->launch.command, "program and its arguments; -- before them is never wrong");
  command->positionals_at_end();
  command->footer(kRunExamples);
  command->callback([a, &status] { status = run(*a); });
}

}  // namespace unisono::cli
