#include "base/run_report.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/fd.h"

namespace unisono {

std::string RunReport::encode() const { return fmt::format("{} {} {} {}", rank, pid, culprit, host); }

bool RunReport::decode(std::string_view text) {
  const std::string whole(text);
  long long sender = 0, other = 0;
  int at = 0;
  if (std::sscanf(whole.c_str(), "%d %lld %lld %n", &rank, &sender, &other, &at) != 3 || at == 0) return false;
  pid = sender;
  culprit = other;
  host = whole.substr(static_cast<std::size_t>(at));
  return true;
}

void report_to_run(std::int64_t culprit, const std::string& host) noexcept try {
  const char* name = std::getenv("UNISONO_RUN_SOCKET");
  const char* rank = std::getenv("UNISONO_RANK");
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (name == nullptr || rank == nullptr || std::strlen(name) >= sizeof to.sun_path) return;
  std::memcpy(to.sun_path + 1, name, std::strlen(name));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + std::strlen(name));
  const Fd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const timeval most{1, 0};
  (void)::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most);
  const std::string text = RunReport{std::atoi(rank), ::getpid(), culprit, host}.encode();
  (void)::sendto(fd.get(), text.data(), text.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&to), length);
} catch (...) {  // no memory: the order of ends must do
}

}  // namespace unisono
