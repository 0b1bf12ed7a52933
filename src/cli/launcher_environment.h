#pragma once
/// What the launcher prepares before it starts anything: the program, the environment of each rank, where they meet.

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cli/launcher.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/secret.h"

namespace unisono::cli {

/// The file that `program` names, by PATH when it has no slash. `exit_status` becomes what shells return when it is not there
/// (127) or cannot be run (126).
Result<std::string> find_program(const std::string& program, int& exit_status);

/// What all ranks of the job have in common.
struct Job {
  rendezvous::Endpoint store;  ///< where the store is
  bool serves = false;         ///< by this launcher
  std::string name;            ///< UNISONO_JOB
  rendezvous::Secret secret;
  std::string door;            ///< UNISONO_SECRET_DOOR, of each launcher its own
  std::string reports;         ///< UNISONO_RUN_SOCKET, of each launcher its own
  std::string master_address;  ///< for programs that bring their own rendezvous, torch's for one
  std::uint16_t master_port = 0;
};

/// One node: a fresh secret, and a store on an abstract unix socket, so that no TCP port is opened. Several: a store over TCP
/// at options.rendezvous, and the secret that the user gave to all nodes; an error when there is none.
Result<Job> plan_job(const LaunchOptions& options);

/// The whole environment of local rank `local`, as NAME=VALUE: this process's, without what another launcher left in it,
/// with torchrun's variables, unisono's and options.environment.
std::vector<std::string> environment_of_rank(const LaunchOptions& options, const Job& job, int local, int secret_fd);

/// What that variable is in every rank's environment; empty where it is not set.
std::string variable_of_ranks(const LaunchOptions& options, const std::string& name);

}  // namespace unisono::cli
