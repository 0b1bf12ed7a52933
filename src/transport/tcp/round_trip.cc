/// In a file of its own: the system's header has the field, and does not go together with the C library's <netinet/tcp.h>.

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

#include "transport/tcp/link.h"

namespace unisono::transport::tcp {

Duration shortest_round_trip(int fd) noexcept {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return {};
  constexpr __u32 kNever = ~__u32{0};
  const bool known = bytes >= offsetof(tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt;
  return known && info.tcpi_min_rtt != kNever ? std::chrono::microseconds(info.tcpi_min_rtt) : Duration{};
}

}  // namespace unisono::transport::tcp
