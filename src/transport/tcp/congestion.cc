#include "transport/tcp/congestion.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "transport/transport.h"

namespace unisono::transport::tcp {

namespace {

constexpr char kReno[] = "reno";

bool choose(int fd, const std::string& name) noexcept {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.c_str(), static_cast<socklen_t>(name.size())) == 0;
}

}  // namespace

std::string congestion_control(int fd) {
  char name[32] = {};  // longer than any: TCP_CA_NAME_MAX is 16
  socklen_t bytes = sizeof name - 1;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0 ? std::string(name) : std::string();
}

Result<Congestion> Congestion::create(int fd, std::string wanted) {
  Congestion congestion;
  congestion.system_ = congestion_control(fd);
  congestion.wanted_ = std::move(wanted);
  if (!congestion.wanted_.empty()) {
    if (!choose(fd, congestion.wanted_))
      return Status::system(
          fmt::format(
              "UNISONO_TCP_CONGESTION is \"{}\": this system does not have it, or does not let this process use it "
              "(/proc/sys/net/ipv4/tcp_allowed_congestion_control lists what it does)",
              congestion.wanted_),
          errno);
    choose(fd, congestion.system_);
    return congestion;
  }
  // Only where there is a way back.
  congestion.avoids_ = congestion.system_.starts_with("bbr") && choose(fd, kReno) && choose(fd, congestion.system_);
  return congestion;
}

void Congestion::begin(int fd, bool loopback) const noexcept {
  if (!wanted_.empty())
    choose(fd, wanted_);
  else if (loopback || avoids_)
    choose(fd, kReno);
}

bool Congestion::settle(int fd, bool loopback, Duration round_trip) const noexcept {
  if (!wanted_.empty() || !avoids_ || loopback) return false;
  if (round_trip > Duration{} && round_trip < kNearBy) return true;
  choose(fd, system_);
  return false;
}

}  // namespace unisono::transport::tcp
