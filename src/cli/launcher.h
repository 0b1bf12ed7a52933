#pragma once
/// Starts the ranks of a job on this host, carries their output, passes signals on, and ends all of them when one
/// fails. What `unisono run` and `unisono bench` are made of.

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "cli/launcher_binding.h"

namespace unisono::cli {

/// What becomes of the ranks' standard output. Standard error always comes through: prefixed in `prefixed` and
/// `rank_zero`, as it is in `plain`.
enum class OutputMode : unsigned char {
  prefixed,  ///< each line as "[RANK] line"; a line is never broken by another rank's
  plain,     ///< every byte as it is; whole lines where ranks write whole lines
  rank_zero  ///< rank 0's bytes pass unchanged and at once; other ranks' standard output is dropped
};

struct LaunchOptions {
  std::vector<std::string> command;  ///< program (looked up in PATH) and its arguments
  int ranks = 1;                     ///< on this node
  int nodes = 1;
  int node_rank = 0;        ///< of this node; node 0 serves the store
  std::string rendezvous;   ///< HOST:PORT of node 0; needed, and used, with several nodes only
  std::string secret_file;  ///< with several nodes: file (0600) with the job secret; empty: UNISONO_SECRET[_FILE]
  std::vector<std::pair<std::string, std::string>> environment;  ///< added to every rank's environment, and wins
  BindMode bind = BindMode::automatic;                           ///< on which processors each rank runs
  OutputMode output = OutputMode::prefixed;
  std::string log_dir;    ///< each rank's output also goes to rank-N.out and rank-N.err there; empty: nowhere
  bool log_only = false;  ///< and only there
  std::chrono::milliseconds time_limit{0};  ///< end the job after so long, with exit status 124; 0: never
  std::chrono::milliseconds grace{5000};    ///< between the first failure and SIGTERM to the ranks that are still there
  std::chrono::milliseconds kill_after{3000};  ///< between that SIGTERM and SIGKILL
  int output_fd = 1;                           ///< where standard output goes
  int error_fd = 2;                            ///< where standard error and the launcher's own lines go
};

/// Run the job to its end; returns its exit status: 0 when all ranks ended with 0, else that of the rank that failed
/// first (128 + signal when a signal killed it), 124 after the time limit, 2 for options that make no sense, 127 and
/// 126 for a program that is not there or cannot be run: those are told before anything starts. Blocks. Call it from a
/// process without other children and, for the time being, without other threads: it forks, takes SIGCHLD, SIGINT,
/// SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 (those that are not ignored) through a descriptor, and adopts orphaned descendants until it returns.
int launch(const LaunchOptions& options);

}  // namespace unisono::cli
