/// How other hosts are reached, and what unisono would do here.

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/fd.h"
#include "cli/cores.h"
#include "cli/doctor_probes.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/environment.h"
#include "rendezvous/socket.h"

namespace unisono::cli {
namespace {

struct Interface {
  unsigned flags = 0;
  std::vector<std::string> addresses;
};

std::map<std::string, Interface> interfaces() {
  std::map<std::string, Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    Interface& it = found[i->ifa_name];
    it.flags = i->ifa_flags;
    if (i->ifa_addr == nullptr || (i->ifa_addr->sa_family != AF_INET && i->ifa_addr->sa_family != AF_INET6)) continue;
    const socklen_t size = i->ifa_addr->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    char text[NI_MAXHOST] = {};
    if (::getnameinfo(i->ifa_addr, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0)
      it.addresses.emplace_back(text);
  }
  ::freeifaddrs(list);
  return found;
}

/// A number from /sys/class/net, or -1: virtual devices have no speed.
long property(const std::string& interface, const char* name) {
  std::ifstream file("/sys/class/net/" + interface + "/" + name);
  long value = -1;
  return file >> value ? value : -1;
}

std::string describe(const std::string& name, const Interface& it) {
  std::string text;
  for (const auto& address : it.addresses) text += (text.empty() ? "" : ", ") + address;
  if (text.empty()) text = "no address";
  if (const long speed = property(name, "speed"); speed > 0) text += fmt::format(", {} Mbit/s", speed);
  if (const long mtu = property(name, "mtu"); mtu > 0) text += fmt::format(", MTU {}", mtu);
  if (!(it.flags & IFF_UP)) text += ", down";
  return text;
}

void examine_host_name(Findings& findings) {
  char name[256] = {};
  (void)::gethostname(name, sizeof name - 1);
  Finding f{"network", "host name", Health::good, name, ""};
  const auto addresses = rendezvous::resolve({name, 0, ""});
  bool only_loopback = addresses.ok() && !addresses->empty();
  std::string list;
  for (const auto& address : addresses ? *addresses : std::vector<rendezvous::Address>{}) {
    auto text = to_string(address);
    text.resize(text.rfind(':'));
    if (text.starts_with('[')) text = text.substr(1, text.size() - 2);
    only_loopback &= rendezvous::is_loopback(text);
    list += (list.empty() ? "" : ", ") + text;
  }
  if (!addresses) {
    f.health = Health::note;
    f.value += ": has no address (only names given as MASTER_ADDR or --rdzv need one)";
  } else {
    f.value += ": " + list;
  }
  if (only_loopback) {
    f.health = Health::warning;
    f.advice =
        "this name leads to loopback here, which other hosts cannot use: for a job over several hosts give an address "
        "as "
        "MASTER_ADDR or --rdzv, or correct /etc/hosts";
  }
  findings.push_back(f);
}

void examine_loopback(Findings& findings) {
  Finding f{"network", "loopback TCP", Health::good, "works", ""};
  const auto address = rendezvous::resolve({"127.0.0.1", 0, ""});
  const auto listener = address ? rendezvous::listen_on(address->front()) : Result<Fd>(address.status());
  Status s = listener.status();
  if (listener) {
    const auto at = rendezvous::local_address(listener->get());
    const auto client = at ? rendezvous::connect_to(*at, std::chrono::steady_clock::now() + std::chrono::seconds(2))
                           : Result<Fd>(at.status());
    s = client.status();
  }
  if (!s.ok())
    f = {"network", "loopback TCP", Health::warning, s.message(), "`ip link set lo up`; jobs on one host work without"};
  findings.push_back(f);
}

bool sharing_works(const Findings& findings) {
  return std::ranges::none_of(
      findings, [](const Finding& f) { return f.group == "shared memory" && f.health == Health::missing; });
}

}  // namespace

void examine_network(Findings& findings) {
  bool reachable = false;
  for (const auto& [name, it] : interfaces()) {
    const bool loopback = (it.flags & IFF_LOOPBACK) != 0, up = (it.flags & IFF_UP) != 0;
    reachable |= up && !loopback && !it.addresses.empty();
    findings.push_back(
        {"network", name, up && !it.addresses.empty() ? Health::good : Health::note, describe(name, it), ""});
  }
  if (!reachable)
    findings.push_back({"network", "other hosts", Health::note,
                        "no interface but loopback has an address: jobs on this host only", ""});
  examine_loopback(findings);
  examine_host_name(findings);
}

void examine_job(Findings& findings) {
  const auto config = rendezvous::config_from(rendezvous::process_environment());
  if (!config)
    findings.push_back(
        {"job", "environment", Health::warning, config.status().message(), "init() would fail with this message"});
  else if (config->launcher == "none")
    findings.push_back({"job", "environment", Health::note,
                        "no launcher: init() makes a world of one rank; start several with `unisono run -n N`", ""});
  else
    findings.push_back({"job", "environment", Health::good,
                        fmt::format("rank {} of {}, started by {}, meeting at {}", config->rank, config->size,
                                    config->launcher, config->init_method.empty() ? "no address" : config->init_method),
                        ""});
  const std::string forced = config ? config->transport : "";
  std::string transport = sharing_works(findings)
                              ? "shm: memory can be shared with everything that it needs (see above)"
                              : "tcp over loopback: memory cannot be shared here (see above)";
  if (!forced.empty()) transport = fmt::format("{}: UNISONO_TRANSPORT={} forces it", forced, forced);
  findings.push_back({"job", "within this host",
                      sharing_works(findings) || !forced.empty() ? Health::good : Health::warning, transport, ""});
  findings.push_back({"job", "between hosts", Health::good, "tcp", ""});
  findings.push_back(
      {"job", "ranks", Health::note,
       fmt::format("up to {} keep a core each and may spin while they wait; more take turns and sleep", usable_cores()),
       ""});
}

}  // namespace unisono::cli
