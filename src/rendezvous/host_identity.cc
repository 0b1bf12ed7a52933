#include "rendezvous/host_identity.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <vector>

namespace unisono::rendezvous {
namespace {

std::uint64_t namespace_inode(const char* which) {
  struct stat s{};
  return ::stat(fmt::format("/proc/self/ns/{}", which).c_str(), &s) == 0 ? s.st_ino : 0;
}

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

/// A word that separators and spaces cannot break: what is not harmless becomes '_'.
std::string as_word(std::string_view text) {
  std::string word;
  for (const char c : text) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_';
    word.push_back(plain ? c : '_');
  }
  return word;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <class T>
bool parse_number(std::string_view text, T& into) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Result<HostIdentity> this_host() {
  HostIdentity id;
  std::ifstream boot("/proc/sys/kernel/random/boot_id");
  if (!std::getline(boot, id.boot_id) || id.boot_id.empty())
    return Status::system("cannot read /proc/sys/kernel/random/boot_id, which tells hosts apart: is /proc mounted?", 0);
  id.boot_id = as_word(id.boot_id);
  id.host = as_word(host_name());
  id.pid = ::getpid();
  id.uid = ::geteuid();
  id.pid_namespace = namespace_inode("pid");
  id.user_namespace = namespace_inode("user");
  id.ipc_namespace = namespace_inode("ipc");
  id.net_namespace = namespace_inode("net");
  return id;
}

std::string launch_scope() {
  const auto here = this_host();
  return here ? fmt::format("{} {}", here->boot_id, here->pid_namespace) : "";
}

std::string to_text(const HostIdentity& id) {
  return fmt::format("{},{},{},{},{},{},{},{}", as_word(id.host), id.boot_id, id.pid, id.uid, id.pid_namespace,
                     id.user_namespace, id.ipc_namespace, id.net_namespace);
}

Result<HostIdentity> parse_host_identity(std::string_view text) {
  const auto parts = split(text, ',');
  HostIdentity id;
  if (parts.size() != 8 || parts[0].empty() || parts[1].empty() || !parse_number(parts[2], id.pid) ||
      !parse_number(parts[3], id.uid) || !parse_number(parts[4], id.pid_namespace) ||
      !parse_number(parts[5], id.user_namespace) || !parse_number(parts[6], id.ipc_namespace) ||
      !parse_number(parts[7], id.net_namespace))
    return Status::invalid(fmt::format("\"{}\" is not a host identity", text));
  id.host = parts[0];
  id.boot_id = parts[1];
  return id;
}

bool same_host(const HostIdentity& a, const HostIdentity& b) noexcept {
  return !a.boot_id.empty() && a.boot_id == b.boot_id && a.uid == b.uid && a.pid_namespace != 0 &&
         a.pid_namespace == b.pid_namespace && a.user_namespace != 0 && a.user_namespace == b.user_namespace;
}

bool same_host_and_network(const HostIdentity& a, const HostIdentity& b) noexcept {
  return same_host(a, b) && a.net_namespace != 0 && a.net_namespace == b.net_namespace;
}

}  // namespace unisono::rendezvous
