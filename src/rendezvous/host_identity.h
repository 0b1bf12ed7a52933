#pragma once
/// Where a process runs, precisely enough to know whether two of them can share memory. Launchers' variables and host
/// names do not decide that: containers share host names, and one host may hold many containers.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace unisono::rendezvous {

/// Thread-safety: a value.
struct HostIdentity {
  std::string host;      ///< host name, for people
  std::string boot_id;   ///< one boot of one kernel
  std::int64_t pid = 0;  ///< in its own pid namespace
  std::uint32_t uid = 0;
  std::uint64_t pid_namespace = 0;  ///< inode numbers from /proc/self/ns; 0 when /proc does not say
  std::uint64_t user_namespace = 0;
  std::uint64_t ipc_namespace = 0;
  std::uint64_t net_namespace = 0;
  friend bool operator==(const HostIdentity&, const HostIdentity&) = default;
};

/// This process. An error when /proc is not there.
Result<HostIdentity> this_host();

/// One boot of one kernel and one pid namespace, as text: what a name must hold that two containers of one host may both
/// choose. Empty when /proc is not there.
std::string launch_scope();

/// One word without spaces; parse_host_identity() takes it back.
std::string to_text(const HostIdentity&);
Result<HostIdentity> parse_host_identity(std::string_view text);

/// Can they share memory by handing descriptors over (same kernel, user, pid and user namespace)? Unknown is no.
bool same_host(const HostIdentity& a, const HostIdentity& b) noexcept;
/// same_host, and abstract unix sockets and loopback reach from one to the other.
bool same_host_and_network(const HostIdentity& a, const HostIdentity& b) noexcept;

}  // namespace unisono::rendezvous
