#include "transport/tcp/tcp.h"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/clock.h"

namespace unisono::transport::tcp {

using namespace std::chrono_literals;

namespace {

constexpr int kBacklog = 4096;
/// How long a closed link's socket waits for the peer to take what is on its way.
constexpr Duration kLinger = 5s;
constexpr Duration kFirstLook = 1ms, kLongestPause = 50ms;
/// A peer that goes on sending to a closed link gets no more than so many reads a turn.
constexpr int kDrainsATurn = 16;

/// Throws input away. True when the socket may be closed: the peer's side has ended, or its kernel has all that we sent, so that
/// a reset can destroy nothing.
bool settled(int fd) noexcept {
  std::array<std::byte, 16384> sink;
  for (int i = 0; i < kDrainsATurn; ++i) {
    const ssize_t n = ::recv(fd, sink.data(), sink.size(), MSG_DONTWAIT);
    if (n == 0) return true;
    if (n > 0 || errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return true;
    break;
  }
  int unacknowledged = 0;
  return ::ioctl(fd, SIOCOUTQ, &unacknowledged) == 0 && unacknowledged == 0;
}

/// A socket that is to listen; the first one says what the system's congestion control is.
Result<Fd> listen_on(const std::string& host, const std::string& wanted, std::optional<Congestion>& congestion) {
  auto address = make_address(host, 0);
  if (!address) return address.status();
  if (is_wildcard(*address))
    return Status::invalid(fmt::format("tcp: cannot listen on {}: peers need the address of one interface", host));
  Fd fd = Fd::of_process_alone(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return Status::system("tcp: cannot create a socket", errno);
  if (!congestion) {
    auto found = Congestion::create(fd.get(), wanted);
    if (!found) return found.status();
    congestion = std::move(found).value();
  }
  congestion->begin(fd.get(), is_loopback(*address));
  if (::bind(fd.get(), address->get(), address->length) != 0 || ::listen(fd.get(), kBacklog) != 0)
    return Status::system(fmt::format("tcp: cannot listen on {} (is it an address of this host?)", host), errno);
  return fd;
}

/// The n-th of texts with commas between them.
std::string nth_of(std::string_view list, std::uint64_t n) {
  for (; n > 0; --n) list.remove_prefix(list.find(',') + 1);
  return std::string(list.substr(0, list.find(',')));
}

/// Both ends have one address: the connection goes through the kernel's memory only.
bool same_host(const Address& a, const Address& b) noexcept {
  if (a.family() != b.family()) return false;
  if (a.family() == AF_INET)
    return reinterpret_cast<const sockaddr_in&>(a.storage).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b.storage).sin_addr.s_addr;
  return a.family() == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a.storage).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b.storage).sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace

Result<std::unique_ptr<Transport>> make_tcp(const Setup& setup, Poller&) { return TcpTransport::create(setup); }

Result<std::unique_ptr<Transport>> TcpTransport::create(const Setup& setup) {
  if (setup.interface_addresses.empty() || setup.interface_addresses.size() > Reception::kMostListeners)
    return Status::invalid(fmt::format("tcp: {} addresses to listen on; it takes 1 to {}",
                                       setup.interface_addresses.size(), Reception::kMostListeners));
  std::vector<Fd> listeners;
  std::optional<Congestion> congestion;
  for (const std::string& address : setup.interface_addresses) {
    auto listener = listen_on(address, setup.tcp_congestion, congestion);
    if (!listener) return listener.status();
    listeners.push_back(std::move(listener).value());
  }
  auto watch = Watch::create();
  if (!watch) return watch.status().with_context("tcp");
  std::unique_ptr<TcpTransport> transport(
      new TcpTransport(setup, std::move(watch).value(), std::move(listeners), *std::move(congestion)));
  UNISONO_TRY(transport->reception_->start());
  return std::unique_ptr<Transport>(std::move(transport));
}

TcpTransport::TcpTransport(const Setup& setup, std::unique_ptr<Watch> watch, std::vector<Fd> listeners,
                           Congestion congestion)
    : watch_(std::move(watch)), congestion_(std::move(congestion)), log_(setup.log) {
  for (const Fd& listener : listeners)
    address_ += (address_.empty() ? "" : ",") + to_string(local_address(listener.get()));
  reception_ = std::make_unique<Reception>(std::move(listeners), *watch_, *this, setup.handshake, setup.log);
}

TcpTransport::~TcpTransport() {
  if (attached_) attached_->remove(watch_->fd());
  if (watch_->foreign()) return;
  linger();
}

/// The last words of this process (why it ends, goodbye) may still be in its kernel, behind data that a busy peer has not taken
/// yet. Closed now, the socket would answer the next thing that peer sends with a reset, which destroys them: wait until the
/// peer's kernel has all.
void TcpTransport::linger() {
  const SteadyClock clock;
  take_departed(clock.now());
  for (look_after_lingering(clock.now()); !lingering_.empty(); look_after_lingering(clock.now())) {
    const auto pause = std::clamp<Duration>(next_linger_ - clock.now(), 1ms, kLongestPause);
    pollfd input{watch_->fd(), POLLIN, 0};
    ::poll(&input, 1, static_cast<int>(pause / 1ms));
    ready_.clear();
    watch_->ready(ready_);
  }
}

void TcpTransport::attach(Poller& poller) {
  attached_ = &poller;
  poller.add(watch_->fd());
}

void TcpTransport::dial(const PeerId& peer, const std::string& address, TimePoint deadline) {
  Dial dial;
  dial.to = peer;
  // The routes decide by which of our interfaces it is reached: on each network the one that is on it, too.
  dial.address = nth_of(address, dials_[peer]++ % static_cast<std::uint64_t>(paths(address)));
  dial.deadline = deadline;
  reception_->dial(std::move(dial));
}

int TcpTransport::paths(const std::string& address) const noexcept {
  return 1 + static_cast<int>(std::count(address.begin(), address.end(), ','));
}

TimePoint TcpTransport::next_deadline() const noexcept {
  return departed_->empty() ? std::min(reception_->next_deadline(), next_linger_) : TimePoint{};
}

void TcpTransport::take_departed(TimePoint now) {
  for (Fd& fd : departed_->take()) {
    if (settled(fd.get())) continue;
    const std::uint64_t token = reception_->new_token();
    if (!watch_->add(fd.get(), token)) continue;
    lingering_.emplace(
        token, Lingering{std::move(fd), saturating_add(now, kLinger), saturating_add(now, kFirstLook), kFirstLook});
  }
}

void TcpTransport::poll(TimePoint now, std::vector<Event>& events) {
  take_departed(now);
  ready_.clear();
  watch_->ready(ready_);
  if (!ready_.empty() || now >= reception_->next_deadline()) reception_->poll(now, ready_, events);
  look_after_lingering(now);
}

void TcpTransport::look_after_lingering(TimePoint now) {
  for (const std::uint64_t token : ready_)
    if (const auto at = lingering_.find(token); at != lingering_.end()) at->second.next_look = now;
  next_linger_ = TimePoint::max();
  for (auto it = lingering_.begin(); it != lingering_.end();) {
    const auto at = it++;
    Lingering& socket = at->second;
    if (now >= socket.next_look) {
      if (now >= socket.deadline || settled(socket.fd.get())) {
        watch_->remove(socket.fd.get());
        lingering_.erase(at);
        continue;
      }
      socket.pause = std::min(socket.pause * 2, kLongestPause);  // acknowledgements make no descriptor ready
      socket.next_look = std::min(socket.deadline, saturating_add(now, socket.pause));
    }
    next_linger_ = std::min(next_linger_, socket.next_look);
  }
}

Result<Fd> TcpTransport::connect(const Dial& dial, bool& final) {
  auto address = parse_address(dial.address);
  if (!address) {
    final = true;
    return address.status();
  }
  Fd fd = Fd::of_process_alone(::socket(address->family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    final = errno == EAFNOSUPPORT;
    return Status::system("cannot create a socket", errno);
  }
  congestion_.begin(fd.get(), is_loopback(*address));
  if (::connect(fd.get(), address->get(), address->length) != 0 && errno != EINPROGRESS)
    return Status::system("cannot connect", errno);
  return fd;
}

Status TcpTransport::admit(int fd, bool dialed, bool&) {
  // A dial to an ephemeral port of this host where nobody listens can meet itself.
  const Address local = local_address(fd), remote = remote_address(fd);
  const bool self = local.length == remote.length && std::memcmp(&local.storage, &remote.storage, local.length) == 0;
  return dialed && self ? Status::system("nobody listens there", ECONNREFUSED) : Status();
}

std::string TcpTransport::describe(int fd) const { return to_string(remote_address(fd)); }

void TcpTransport::greeted(Fd fd, const PeerId& peer, std::optional<Dial> dial, TimePoint, std::vector<Event>& events) {
  tune(fd.get());
  const Address local = local_address(fd.get());
  if (large_buffers_ && same_host(local, remote_address(fd.get()))) tune_local(fd.get());
  if (congestion_.settle(fd.get(), is_loopback(local), shortest_round_trip(fd.get())) && !said_near_) {
    said_near_ = true;
    log_.info(
        fmt::format("tcp: reno instead of the system's {} to peers with a round trip below {} ms "
                    "(UNISONO_TCP_CONGESTION chooses one for all)",
                    congestion_.system(), kNearBy / 1ms));
  }
  Event event;
  event.peer = peer;
  event.dialed = dial.has_value();
  std::string description = fmt::format("tcp to {}", describe(fd.get()));
  event.link = std::make_unique<TcpLink>(std::move(fd), std::move(description), departed_);
  events.push_back(std::move(event));
}

}  // namespace unisono::transport::tcp
