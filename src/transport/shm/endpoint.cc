#include "transport/shm/endpoint.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "transport/shm/process.h"

namespace unisono::transport::shm {

namespace {
/// A ring should be larger than the cache next to a core: who writes to lines that still lie in the cache of the peer that read them waits for
/// that cache. So it is large for the first few links, and smaller for more, so that all rings of a process with 63 of them take 21 MiB.
std::uint64_t ring_bytes(std::uint64_t most, std::size_t links) {
  constexpr std::uint64_t all = 7 << 20, least = 128 << 10;
  return std::clamp(std::bit_floor(all / (links + 1)), std::min(least, most), most);
}
}  // namespace

namespace {

constexpr int kBacklog = 4096;

/// A descriptor cannot be copied, so not out of an initializer list.
std::vector<Fd> one(Fd fd) {
  std::vector<Fd> list;
  list.push_back(std::move(fd));
  return list;
}

/// "@name" as a socket address; the length, or 0 when it is not one.
socklen_t to_abstract(const std::string& address, sockaddr_un& into) noexcept {
  into = {};
  into.sun_family = AF_UNIX;
  if (address.size() < 2 || address[0] != '@' || address.size() > sizeof into.sun_path) return 0;
  std::memcpy(into.sun_path + 1, address.data() + 1, address.size() - 1);
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
}

Result<Fd> listen_on(const std::string& address) {
  Fd fd = Fd::of_process_alone(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return Status::system("shm: cannot create a unix socket", errno);
  sockaddr_un name;
  const socklen_t length = to_abstract(address, name);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), length) != 0 || ::listen(fd.get(), kBacklog) != 0)
    return Status::system(fmt::format("shm: cannot listen on the unix socket {}", address), errno);
  return fd;
}

}  // namespace

Result<std::unique_ptr<Transport>> make_shm(const Setup& setup, Poller& poller) {
  auto* ours = dynamic_cast<EpollPoller*>(&poller);
  if (!ours) return Status::internal("shm: needs a poller made by make_epoll_poller()");
  return Endpoint::create(setup, *ours);
}

Result<std::unique_ptr<Transport>> Endpoint::create(const Setup& setup, EpollPoller& poller) {
  auto segment = Segment::create(setup.segment_bytes, setup.log, setup.home);
  if (!segment) return segment.status().with_context("shm");
  auto watch = Watch::create();
  if (!watch) return watch.status().with_context("shm");
  std::string address = "@unisono-" + to_string(random_peer_id());
  auto listener = listen_on(address);
  if (!listener) return listener.status();
  std::unique_ptr<Endpoint> endpoint(new Endpoint(setup, poller, std::move(segment).value(), std::move(watch).value(),
                                                  std::move(listener).value(), std::move(address)));
  UNISONO_TRY(endpoint->reception_->start());
  return std::unique_ptr<Transport>(std::move(endpoint));
}

Endpoint::Endpoint(const Setup& setup, EpollPoller& poller, std::shared_ptr<Segment> segment,
                   std::unique_ptr<Watch> watch, Fd listener, std::string address)
    : setup_(setup),
      home_(poller),
      segment_(std::move(segment)),
      watch_(std::move(watch)),
      address_(std::move(address)),
      reception_(std::make_unique<Reception>(one(std::move(listener)), *watch_, *this, setup.handshake, setup.log)) {
  home_.announce_in(segment_->header().parked);
}

Endpoint::~Endpoint() {
  home_.forget(segment_->header().parked);
  if (attached_) attached_->remove(watch_->fd());
  for (auto& [token, line] : lines_) {
    watch_->remove(line->socket.get());
    if (line->channel->closed() && !watch_->foreign()) ::shutdown(line->socket.get(), SHUT_RDWR);
  }
  for (auto& [token, meeting] : meetings_) watch_->remove(meeting.socket.get());
  for (auto& [peer, process] : processes_) watch_->remove(process.fd.get());
}

void Endpoint::attach(Poller& poller) {
  attached_ = &poller;
  poller.add(watch_->fd());
}

void Endpoint::dial(const PeerId& peer, const std::string& address, TimePoint deadline) {
  Dial dial;
  dial.to = peer;
  dial.address = address;
  dial.deadline = deadline;
  reception_->dial(std::move(dial));
}

TimePoint Endpoint::next_deadline() const noexcept {
  if (sweep_->due.load(std::memory_order_acquire)) return TimePoint{};
  TimePoint next = reception_->next_deadline();
  for (const auto& [token, meeting] : meetings_) next = std::min(next, meeting.deadline);
  return next;
}

void Endpoint::poll(TimePoint now, std::vector<Event>& events) {
  ready_.clear();
  watch_->ready(ready_);
  if (!ready_.empty() || now >= reception_->next_deadline()) reception_->poll(now, ready_, events);
  for (const std::uint64_t token : ready_) {
    if (meetings_.contains(token)) {
      advance(token, now, events);
    } else if (lines_.contains(token)) {
      socket_ended(token, events);
    } else {
      const auto process = std::find_if(processes_.begin(), processes_.end(),
                                        [&](const auto& entry) { return entry.second.token == token; });
      if (process != processes_.end()) process_ended(PeerId(process->first), events);
    }
  }
  for (auto it = meetings_.begin(); it != meetings_.end();) {
    const auto at = it++;
    if (now < at->second.deadline) continue;
    auto node = meetings_.extract(at);
    give_up(std::move(node.mapped()), Status::timeout("it did not pass its shared memory in time"), true, now, events);
  }
  if (sweep_->due.exchange(false, std::memory_order_acq_rel)) sweep();
}

// --- connecting

Result<Fd> Endpoint::connect(const Dial& dial, bool& final) {
  sockaddr_un name;
  const socklen_t length = to_abstract(dial.address, name);
  if (length == 0) {
    final = true;
    return Status::invalid(fmt::format("shm: \"{}\" is not the address of a unix socket", dial.address));
  }
  Fd fd = Fd::of_process_alone(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return Status::system("cannot create a unix socket", errno);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), length) != 0)
    return Status::system("cannot connect", errno);  // its queue may be full, or it may not listen yet
  return fd;
}

Status Endpoint::admit(int fd, bool, bool& final) {
  const Credentials peer = credentials_of(fd);
  if (peer.uid == ::geteuid()) return {};
  final = true;
  return Status::authentication(fmt::format("it runs as user {}, not as {}", peer.uid, ::geteuid()));
}

std::string Endpoint::describe(int fd) const { return fmt::format("pid {}", credentials_of(fd).pid); }

void Endpoint::greeted(Fd fd, const PeerId& peer, std::optional<Dial> dial, TimePoint now, std::vector<Event>& events) {
  const Credentials who = credentials_of(fd.get());
  rest();
  // Before its memory arrives: as it still answers after this, the handle is surely that process's.
  ProcessHandle process = process_of(fd.get(), who.pid);
  auto channel = Channel::create(segment_, ring_bytes(setup_.ring_bytes, lines_.size() + meetings_.size()));
  Offer offer;
  if (channel)
    offer = {kMagic, kVersion, static_cast<std::int32_t>(::getpid()), segment_->bytes(), (*channel)->block()};
  const std::uint64_t token = reception_->new_token();
  Meeting meeting{std::move(fd),
                  peer,
                  std::move(dial),
                  saturating_add(now, Reception::kHandshakeTime),
                  who.pid,
                  std::move(process.fd),
                  channel ? *channel : nullptr,
                  OfferExchange(offer, segment_->fd(), home_.doorbell()->get()),
                  true};
  if (!channel) return give_up(std::move(meeting), channel.status(), false, now, events);
  if (process.error == ESRCH)
    return give_up(std::move(meeting), Status::system("that process has ended", 0), false, now, events);
  if (process.error != 0) say_no_pidfd(std::strerror(process.error));
  if (Status status = watch_->add(meeting.socket.get(), token, true); !status)
    return give_up(std::move(meeting), status, false, now, events);
  meetings_.emplace(token, std::move(meeting));
  advance(token, now, events);
}

/// There is somebody who may read this process's memory. Without the thread that takes a little longer.
void Endpoint::rest() {
  if (!setup_.peer_memory || resting_ != nullptr) return;
  auto thread = RestingThread::start(segment_->header().resting);
  if (thread)
    resting_ = std::move(thread).value();
  else
    setup_.log.info(
        fmt::format("shm: {}; peers name the main one when they copy from this process", thread.status().message()));
}

void Endpoint::advance(std::uint64_t token, TimePoint now, std::vector<Event>& events) {
  Meeting& meeting = meetings_.at(token);
  const auto state = meeting.exchange.pump(meeting.socket.get());
  if (meeting.exchange.wants_write() != meeting.writing) {
    meeting.writing = meeting.exchange.wants_write();
    watch_->want_write(meeting.socket.get(), token, meeting.writing);
  }
  if (state == OfferExchange::State::more) return;
  auto node = meetings_.extract(token);
  if (state == OfferExchange::State::failed) {
    const Status reason = Status::authentication(node.mapped().exchange.reason());
    give_up(std::move(node.mapped()), reason, true, now, events);
    return;
  }
  establish(token, std::move(node.mapped()), now, events);
}

/// No link came of it. The control block stays taken: the peer may already look at it.
void Endpoint::give_up(Meeting meeting, const Status& reason, bool temporary, TimePoint now,
                       std::vector<Event>& events) {
  watch_->remove(meeting.socket.get());
  if (meeting.channel) meeting.channel->close();
  ::shutdown(meeting.socket.get(), SHUT_RDWR);
  if (meeting.dial && temporary) {
    ++meeting.dial->dropped;
    reception_->put_back(std::move(*meeting.dial), reason.message(), now, events);
    return;
  }
  Event event;
  event.kind = meeting.dial ? Event::Kind::failed : Event::Kind::rejected;
  event.peer = meeting.peer;
  event.status =
      reason.with_context(fmt::format("shm: no link with peer {} (pid {})", to_string(meeting.peer), meeting.pid));
  events.push_back(std::move(event));
}

void Endpoint::establish(std::uint64_t token, Meeting meeting, TimePoint now, std::vector<Event>& events) {
  const Offer offer = meeting.exchange.theirs();
  auto doorbell = std::make_shared<const Fd>(meeting.exchange.take_doorbell());
  auto view = PeerView::map(meeting.exchange.take_segment(), offer.segment_bytes, std::move(doorbell), meeting.pid);
  Status status = view ? meeting.channel->bind(std::move(view).value(), offer.block) : view.status();
  if (!status) return give_up(std::move(meeting), status, false, now, events);
  watch_process(meeting, offer);

  auto line = std::make_shared<Line>(Line{std::move(meeting.socket), meeting.peer, std::move(meeting.channel)});
  lines_.emplace(token, line);
  Event event;
  event.peer = line->peer;
  event.dialed = meeting.dial.has_value();
  event.link = std::make_unique<MemoryLink>(line->channel, fmt::format("shm to pid {}", meeting.pid),
                                            [line, sweep = sweep_, owner = ::getpid()] {
                                              if (::getpid() != owner)
                                                return;  // a forked child must not end its parent's connections
                                              ::shutdown(line->socket.get(), SHUT_WR);
                                              sweep->due.store(true, std::memory_order_release);
                                            });
  events.push_back(std::move(event));
}

// --- the end of things

void Endpoint::say_no_pidfd(const std::string& why) {
  if (std::exchange(said_no_pidfd_, true)) return;
  setup_.log.warn(
      fmt::format("shm: cannot watch a peer's process ({}); its end is noticed when its sockets close, which children "
                  "it forked can delay",
                  why));
}

void Endpoint::watch_process(Meeting& meeting, const Offer& offer) {
  Process& process = processes_[meeting.peer];
  ++process.lines;
  if (process.lines > 1 || process.fd || !meeting.process) return;
  if (offer.pid != meeting.pid) {
    say_no_pidfd(fmt::format("it calls itself pid {}, the kernel calls it {}", offer.pid, meeting.pid));
    return;
  }
  const std::uint64_t token = reception_->new_token();
  if (Status status = watch_->add(meeting.process.get(), token); !status) {
    say_no_pidfd(status.message());
    return;
  }
  process.fd = std::move(meeting.process);
  process.token = token;
}

void Endpoint::socket_ended(std::uint64_t token, std::vector<Event>& events) {
  const auto at = lines_.find(token);
  Line& line = *at->second;
  if (line.channel->gone()) return;  // its process ended a moment ago
  std::array<std::byte, 256> ignored;
  const ssize_t n = ::recv(line.socket.get(), ignored.data(), ignored.size(), MSG_DONTWAIT);
  if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))) return;  // nothing is said here
  watch_->remove(line.socket.get());
  line.channel->mark_gone();
  const bool silent = !line.channel->peer_closed() && !processes_[line.peer].fd;
  if (silent) {
    Event event;
    event.kind = Event::Kind::died;
    event.peer = line.peer;
    events.push_back(std::move(event));
  }
  if (line.channel->closed()) remove_line(at);
}

void Endpoint::process_ended(const PeerId& peer, std::vector<Event>& events) {
  watch_->remove(processes_.at(peer).fd.get());
  processes_.erase(peer);
  for (auto it = lines_.begin(); it != lines_.end();) {
    const auto at = it++;
    Line& line = *at->second;
    if (line.peer != peer) continue;
    watch_->remove(line.socket.get());
    line.channel->mark_gone();
    if (line.channel->closed()) remove_line(at);
  }
  Event event;
  event.kind = Event::Kind::died;
  event.peer = peer;
  events.push_back(std::move(event));
}

void Endpoint::sweep() {
  for (auto it = lines_.begin(); it != lines_.end();) {
    const auto at = it++;
    if (at->second->channel->closed() && at->second->channel->gone()) remove_line(at);
  }
}

/// Both ends are gone: nobody looks at the memory any more.
void Endpoint::remove_line(std::map<std::uint64_t, std::shared_ptr<Line>>::iterator at) {
  const std::shared_ptr<Line> line = at->second;
  lines_.erase(at);
  line->channel->release();
  ::shutdown(line->socket.get(), SHUT_RDWR);
  const auto process = processes_.find(line->peer);
  if (process == processes_.end() || --process->second.lines > 0) return;
  // A peer that closed its end itself goes on living; of another one we still expect to hear that it has died.
  if (process->second.fd && !line->channel->peer_closed()) return;
  watch_->remove(process->second.fd.get());
  processes_.erase(process);
}

}  // namespace unisono::transport::shm
