#include "cli/launcher_environment.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "base/fd.h"
#include "base/handshake.h"
#include "cli/cores.h"
#include "rendezvous/crypto.h"
#include "rendezvous/environment.h"
#include "rendezvous/secret_source.h"

extern char** environ;

namespace unisono::cli {
namespace {

using rendezvous::Secret;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_program(const std::string& path, int& error) {
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0) {
    error = errno;
    return false;
  }
  if (S_ISREG(s.st_mode) && ::access(path.c_str(), X_OK) == 0) return true;
  error = S_ISDIR(s.st_mode) ? EISDIR : EACCES;
  return false;
}

/// A TCP port of loopback that is free now. Only a number: torch programs open it themselves, if they do.
std::uint16_t free_port() {
  const Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof a;
  auto* address = reinterpret_cast<sockaddr*>(&a);
  if (!fd || ::bind(fd.get(), address, size) != 0 || ::getsockname(fd.get(), address, &size) != 0) return 29500;
  return ntohs(a.sin_port);
}

/// The user's secret, for several nodes.
Result<Secret> shared_secret(const LaunchOptions& options) {
  if (!options.secret_file.empty()) return rendezvous::read_secret_file(options.secret_file);
  auto secret = rendezvous::read_secret(rendezvous::process_environment());
  if (!secret || !secret->empty()) return secret;
  return Status::invalid(
      "several nodes need a secret that all of them know, or anybody on the network could join the job: make one with "
      "`openssl rand -hex 32 > FILE`, copy it to every node, `chmod 600 FILE`, and give --secret-file FILE (or "
      "UNISONO_SECRET_FILE, or UNISONO_SECRET) to each `unisono run`");
}

Result<Job> plan_several_nodes(const LaunchOptions& options) {
  if (options.rendezvous.empty())
    return Status::invalid(
        fmt::format("{} nodes need --rdzv HOST:PORT, the same on every node: an address of node 0", options.nodes));
  Job job;
  auto at = rendezvous::parse_endpoint(options.rendezvous);
  if (!at) return at.status().with_context("--rdzv");
  if (at->is_unix() || at->port == 0 || at->port == 65535)
    return Status::invalid(
        fmt::format("--rdzv {}: expected HOST:PORT with a port from 1 to 65534", options.rendezvous));
  auto secret = shared_secret(options);
  if (!secret) return secret.status();
  job.store = std::move(*at);
  job.serves = options.node_rank == 0;
  job.secret = std::move(*secret);
  job.master_address = job.store.host;
  job.master_port = static_cast<std::uint16_t>(job.store.port + 1);  // all nodes must agree without having talked
  job.name = variable("UNISONO_JOB");
  if (job.name.empty()) job.name = "run-" + rendezvous::short_hash(to_string(job.store));
  return job;
}

/// What launchers set: a job started within another one must not inherit who its ranks are.
bool is_of_a_launcher(std::string_view name) {
  constexpr std::array kNames = {"RANK",
                                 "WORLD_SIZE",
                                 "LOCAL_RANK",
                                 "LOCAL_WORLD_SIZE",
                                 "GROUP_RANK",
                                 "GROUP_WORLD_SIZE",
                                 "ROLE_RANK",
                                 "ROLE_WORLD_SIZE",
                                 "ROLE_NAME",
                                 "MASTER_ADDR",
                                 "MASTER_PORT",
                                 "UNISONO_SECRET",
                                 "UNISONO_SECRET_FILE",
                                 "UNISONO_SECRET_FD",
                                 "UNISONO_SECRET_DOOR"};
  return std::ranges::find(kNames, name) != kNames.end() || name.starts_with("TORCHELASTIC_");
}

}  // namespace

Result<std::string> find_program(const std::string& program, int& exit_status) {
  const auto refuse = [&](int error) {
    exit_status = error == ENOENT || error == ENOTDIR ? 127 : 126;
    if (exit_status == 127)
      return Status::invalid(fmt::format("there is no program \"{}\"{}", program,
                                         program.find('/') == std::string::npos ? " in PATH" : ""));
    return Status::invalid(fmt::format("\"{}\" cannot be run: {}", program,
                                       error == EISDIR   ? "it is a directory"
                                       : error == EACCES ? "it is not executable (chmod +x?)"
                                                         : std::strerror(error)));
  };
  int error = ENOENT;
  if (program.find('/') != std::string::npos) {
    if (is_program(program, error)) return program;
    return refuse(error);
  }
  std::string path = variable("PATH");
  if (path.empty()) path = "/usr/local/bin:/usr/bin:/bin";
  int worst = ENOENT;  // a file that is there and cannot be run says more than those that are not there
  for (std::size_t begin = 0; !program.empty() && begin <= path.size();) {
    const auto end = std::min(path.find(':', begin), path.size());
    const std::string directory = end == begin ? "." : path.substr(begin, end - begin);
    if (std::string file = fmt::format("{}/{}", directory, program); is_program(file, error)) return file;
    if (error == EACCES) worst = error;
    begin = end + 1;
  }
  return refuse(worst);
}

Result<Job> plan_job(const LaunchOptions& options) {
  if (options.ranks < 1) return Status::invalid(fmt::format("-n {}: a job needs at least one rank", options.ranks));
  if (options.nodes < 1)
    return Status::invalid(fmt::format("--nnodes {}: a job needs at least one node", options.nodes));
  if (options.node_rank < 0 || options.node_rank >= options.nodes)
    return Status::invalid(fmt::format("--node-rank {} of {} nodes: they count from 0 to {}", options.node_rank,
                                       options.nodes, options.nodes - 1));
  if (options.nodes > 1) return plan_several_nodes(options);
  Job job;
  auto secret = options.secret_file.empty() ? Secret::generate() : rendezvous::read_secret_file(options.secret_file);
  if (!secret) return secret.status();
  const std::string unique = to_string(random_peer_id());
  job.secret = std::move(*secret);
  job.store.name = fmt::format("unisono-run-{}-{}", ::getpid(), unique);
  job.serves = true;
  job.name = variable("UNISONO_JOB");
  if (job.name.empty()) job.name = "run-" + unique;
  job.master_address = "127.0.0.1";
  job.master_port = free_port();
  return job;
}

std::vector<std::string> environment_of_rank(const LaunchOptions& options, const Job& job, int local, int secret_fd) {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; entry++) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos || is_of_a_launcher(text.substr(0, equals))) continue;
    variables[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  // Threads of all ranks together should fill the cores, not each rank's alone; unset, many libraries take all cores each.
  variables.emplace("OMP_NUM_THREADS", std::to_string(std::max(1, usable_cores() / options.ranks)));
  variables.emplace("PYTHONUNBUFFERED",
                    "1");  // output goes through a pipe: without it, Python holds it back until the end
  const int rank = options.node_rank * options.ranks + local;
  const std::pair<const char*, std::string> ours[] = {
      {"RANK", std::to_string(rank)},
      {"WORLD_SIZE", std::to_string(options.nodes * options.ranks)},
      {"LOCAL_RANK", std::to_string(local)},
      {"LOCAL_WORLD_SIZE", std::to_string(options.ranks)},
      {"GROUP_RANK", std::to_string(options.node_rank)},
      {"GROUP_WORLD_SIZE", std::to_string(options.nodes)},
      {"MASTER_ADDR", job.master_address},
      {"MASTER_PORT", std::to_string(job.master_port)},
      {"UNISONO_RANK", std::to_string(rank)},
      {"UNISONO_SIZE", std::to_string(options.nodes * options.ranks)},
      {"UNISONO_LOCAL_RANK", std::to_string(local)},
      {"UNISONO_LOCAL_SIZE", std::to_string(options.ranks)},
      {"UNISONO_INIT_METHOD", (job.store.is_unix() ? "" : "tcp://") + to_string(job.store)},
      {"UNISONO_JOB", job.name},
      {"UNISONO_RUN_SOCKET", job.reports},
      {"UNISONO_SECRET_FD", std::to_string(secret_fd)},
      {"UNISONO_SECRET_DOOR", job.door}};
  for (const auto& [name, value] : ours) variables[name] = value;
  // For ranks whose wrapper closes the descriptor, wherever they go.
  if (!options.secret_file.empty())
    variables["UNISONO_SECRET_FILE"] = std::filesystem::absolute(options.secret_file).string();
  for (const auto& [name, value] : options.environment) variables[name] = value;
  std::vector<std::string> result;
  result.reserve(variables.size());
  for (const auto& [name, value] : variables) result.push_back(fmt::format("{}={}", name, value));
  return result;
}

std::string variable_of_ranks(const LaunchOptions& options, const std::string& name) {
  std::string value = variable(name.c_str());
  for (const auto& [key, added] : options.environment)
    if (key == name) value = added;
  return value;
}

}  // namespace unisono::cli
