#include "cli/launcher_reports.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/handshake.h"
#include "base/run_report.h"
#include "rendezvous/host_identity.h"

namespace unisono::cli {
namespace {

/// Of whoever sent it; false where the kernel does not say.
bool is_ours(msghdr& message) {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS) continue;
    ucred sender{};
    std::memcpy(&sender, CMSG_DATA(c), sizeof sender);
    return sender.uid == ::geteuid() || sender.uid == 0;
  }
  return false;
}

}  // namespace

Status Reports::open() {
  auto host = rendezvous::this_host();
  if (!host) return host.status();
  host_ = host->host;
  name_ = fmt::format("unisono-reports-{}-{}", ::getpid(), to_string(random_peer_id()));
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path + 1, name_.data(), std::min(name_.size(), sizeof at.sun_path - 1));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
  fd_ = Fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int yes = 1;
  if (!fd_ || ::setsockopt(fd_.get(), SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) != 0 ||
      ::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&at), length) != 0)
    return Status::system("cannot make the socket for the ranks' reports", errno);
  return {};
}

std::vector<Report> Reports::read() {
  std::vector<Report> reports;
  std::array<char, 1024> text;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(ucred))> control;
  for (;;) {
    iovec part{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t n = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return reports;
    RunReport report;
    if (!is_ours(message) || !report.decode({text.data(), static_cast<std::size_t>(n)})) continue;
    rank_of_[report.pid] = report.rank;
    if (report.culprit == 0) continue;
    const auto known = report.host == host_ ? rank_of_.find(report.culprit) : rank_of_.end();
    reports.push_back({report.rank, {report.host, report.culprit, known == rank_of_.end() ? -1 : known->second}});
  }
}

}  // namespace unisono::cli
