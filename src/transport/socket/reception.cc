#include "transport/socket/reception.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <bitset>
#include <cerrno>
#include <cstring>

namespace unisono::transport {

using namespace std::chrono_literals;

namespace {
constexpr const char* kUnreachable =
    "is that process running, and can its address be reached from here? UNISONO_INTERFACE, on that rank's host, "
    "chooses the interface whose address it publishes";

constexpr int kAcceptsAPoll = 32;
constexpr Duration kAcceptPause = 100ms;
/// A stranger that has been silent for so long makes room when others wait.
constexpr Duration kPatience = 1s;
/// How soon to look again whether a stranger has become a peer, when all places are taken.
constexpr Duration kFullPause = 5ms;

/// accept() failed because this process or machine lacks something: trying again at once would spin.
bool is_shortage(int error) noexcept {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

Event event_of(Event::Kind kind, Status status, PeerId peer = {}) {
  Event event;
  event.kind = kind;
  event.status = std::move(status);
  event.peer = peer;
  return event;
}

}  // namespace

Reception::Reception(std::vector<Fd> listeners, Watch& watch, SocketKind& kind,
                     std::shared_ptr<HandshakeFactory> handshake, Logger log)
    : listeners_(std::move(listeners)),
      watch_(watch),
      kind_(kind),
      handshake_(std::move(handshake)),
      log_(std::move(log)) {}

Reception::~Reception() {
  for (auto& [token, stranger] : strangers_) watch_.remove(stranger.fd.get());
  ignore_listeners();
  // A forked child may hold the sockets open: closing alone would leave callers waiting in their queues.
  if (!watch_.foreign())
    for (const Fd& listener : listeners_) ::shutdown(listener.get(), SHUT_RDWR);
}

Status Reception::start() { return watch_listeners(); }

Status Reception::watch_listeners() {
  for (std::size_t i = 0; i < listeners_.size(); ++i) UNISONO_TRY(watch_.add(listeners_[i].get(), i));
  return {};
}

void Reception::ignore_listeners() noexcept {
  for (const Fd& listener : listeners_) watch_.remove(listener.get());
}

void Reception::dial(Dial dial) {
  next_ = std::min(next_, dial.next_try);
  dials_.push_back(std::move(dial));
}

void Reception::poll(TimePoint now, std::vector<std::uint64_t>& ready, std::vector<Event>& events) {
  std::bitset<kMostListeners> knocked;
  std::erase_if(ready, [&](std::uint64_t token) {
    if (token < kMostListeners) return knocked.set(token).any();
    const auto at = strangers_.find(token);
    if (at == strangers_.end()) return false;
    advance(at, now, events);
    return true;
  });
  if (now >= next_) {
    expire(now, events);
    try_dials(now, events);
    if (accept_again_ && now >= *accept_again_) {
      accept_again_.reset();
      if (watch_listeners())
        knocked.set();
      else
        pause_accepting(saturating_add(now, kAcceptPause));
    }
  }
  for (std::size_t i = 0; i < listeners_.size() && !accept_again_; ++i)
    if (knocked.test(i)) accept(listeners_[i], now, events);
  plan_next();
}

void Reception::plan_next() {
  next_ = accept_again_.value_or(TimePoint::max());
  for (const auto& [token, stranger] : strangers_) next_ = std::min(next_, stranger.deadline);
  for (const auto& dial : dials_) next_ = std::min(next_, dial.next_try);
}

void Reception::pause_accepting(TimePoint until) {
  ignore_listeners();
  accept_again_ = until;
}

/// Whether one more caller may come in. Drops the oldest that has had its time; else others wait in the kernel's queue.
bool Reception::make_room(TimePoint now, std::vector<Event>& events) {
  if (callers_ < kMaxStrangers) return true;
  const auto oldest =
      std::find_if(strangers_.begin(), strangers_.end(), [](const auto& entry) { return !entry.second.dial; });
  if (now < saturating_add(oldest->second.since, kPatience)) {
    pause_accepting(saturating_add(now, kFullPause));
    return false;
  }
  refuse(oldest, "it said nothing useful while others were waiting", true, now, events);
  return true;
}

void Reception::accept(const Fd& listener, TimePoint now, std::vector<Event>& events) {
  for (int i = 0; i < kAcceptsAPoll && make_room(now, events); ++i) {
    Fd fd = Fd::of_process_alone(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      out_of_descriptors_ = false;
      admit_caller(std::move(fd), now, events);
      continue;
    }
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) return;
    if (!is_shortage(error)) continue;  // this caller went away, or its network did: the next may be fine
    if (!std::exchange(out_of_descriptors_, true))
      log_.warn(fmt::format("{}: cannot accept a connection: {}; trying again every {} ms", kind_.name(),
                            std::strerror(error), kAcceptPause / 1ms));
    pause_accepting(saturating_add(now, kAcceptPause));
    return;
  }
}

void Reception::admit_caller(Fd fd, TimePoint now, std::vector<Event>& events) {
  bool final = false;
  const std::uint64_t token = new_token();
  Status status = kind_.admit(fd.get(), false, final);
  if (status) status = watch_.add(fd.get(), token);
  if (!status) {
    events.push_back(event_of(Event::Kind::rejected, status.with_context(fmt::format("{}: refused {}", kind_.name(),
                                                                                     kind_.describe(fd.get())))));
    return;
  }
  Stranger stranger{std::move(fd), Greeting(handshake_->accept()), now, saturating_add(now, kHandshakeTime), {}, false,
                    false};
  ++callers_;
  advance(strangers_.emplace(token, std::move(stranger)).first, now, events);
}

void Reception::try_dials(TimePoint now, std::vector<Event>& events) {
  std::vector<Dial> due;
  std::erase_if(dials_, [&](Dial& dial) {
    if (now < dial.next_try) return false;
    due.push_back(std::move(dial));
    return true;
  });
  for (auto& dial : due) {
    if (dial.tries > 0 && dial.hopeless(now))
      fail(dial, dial.give_up(kind_.name(), kUnreachable), events);
    else
      try_dial(std::move(dial), now, events);
  }
}

void Reception::try_dial(Dial dial, TimePoint now, std::vector<Event>& events) {
  bool final = false;
  auto fd = kind_.connect(dial, final);
  const std::uint64_t token = new_token();
  Status status = fd.status();
  if (status) status = watch_.add(fd->get(), token, true);
  if (!status) {
    if (final)
      fail(dial, status, events);
    else
      put_back(std::move(dial), status.message(), now, events);
    return;
  }
  const TimePoint deadline =
      std::min(saturating_add(now, kHandshakeTime), std::max(dial.deadline, saturating_add(now, 1ms)));
  Greeting greeting(handshake_->dial(dial.to));
  strangers_.emplace(token, Stranger{std::move(*fd), std::move(greeting), now, deadline, std::move(dial), true, true});
}

/// Whether the network has answered; `reason` when it said no.
bool Reception::connected(Stranger& stranger, std::string& reason, bool& final) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(stranger.fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) {
    reason = std::strerror(error);
    return false;
  }
  sockaddr_storage peer{};
  size = sizeof peer;
  if (::getpeername(stranger.fd.get(), reinterpret_cast<sockaddr*>(&peer), &size) != 0) return false;  // not yet
  const Status status = kind_.admit(stranger.fd.get(), true, final);
  reason = status.message();
  return status.ok();
}

void Reception::advance(Strangers::iterator at, TimePoint now, std::vector<Event>& events) {
  Stranger& stranger = at->second;
  if (stranger.connecting) {
    std::string reason;
    bool final = false;
    if (!connected(stranger, reason, final)) {
      if (!reason.empty()) refuse(at, reason, final, now, events);
      return;
    }
    stranger.connecting = false;
  }
  SocketWire wire(stranger.fd.get());
  const auto state = stranger.greeting.pump(wire);
  if (state == Greeting::State::more) {
    if (stranger.greeting.wants_write() != stranger.writing) {
      stranger.writing = stranger.greeting.wants_write();
      watch_.want_write(stranger.fd.get(), at->first, stranger.writing);
    }
    return;
  }
  if (state != Greeting::State::done) {
    if (stranger.dial && state == Greeting::State::dropped) ++stranger.dial->dropped;
    refuse(at, stranger.greeting.reason(), state == Greeting::State::rejected, now, events);
    return;
  }
  const PeerId peer = stranger.greeting.peer();
  if (stranger.dial && peer != stranger.dial->to) {
    refuse(at, fmt::format("the process there is {}", to_string(peer)), true, now, events);
    return;
  }
  watch_.remove(stranger.fd.get());
  if (!stranger.dial) --callers_;
  auto node = strangers_.extract(at);
  kind_.greeted(std::move(node.mapped().fd), peer, std::move(node.mapped().dial), now, events);
}

void Reception::expire(TimePoint now, std::vector<Event>& events) {
  for (auto it = strangers_.begin(); it != strangers_.end();) {
    const auto at = it++;
    if (now < at->second.deadline) continue;
    const bool silent = at->second.connecting;
    refuse(
        at,
        silent ? "the network does not answer" : fmt::format("no complete handshake within {} s", kHandshakeTime / 1s),
        false, now, events);
  }
}

/// Ends a connection that did not become one. A caller is reported; a dial is tried again unless the refusal is `final`.
void Reception::refuse(Strangers::iterator at, const std::string& reason, bool final, TimePoint now,
                       std::vector<Event>& events) {
  watch_.remove(at->second.fd.get());
  auto node = strangers_.extract(at);
  Stranger& stranger = node.mapped();
  if (!stranger.dial) {
    --callers_;
    std::string text = fmt::format("{}: refused {}: {}", kind_.name(), kind_.describe(stranger.fd.get()), reason);
    ::shutdown(stranger.fd.get(), SHUT_RDWR);
    events.push_back(event_of(Event::Kind::rejected, Status::authentication(std::move(text))));
    return;
  }
  ::shutdown(stranger.fd.get(), SHUT_RDWR);
  if (final)
    fail(*stranger.dial,
         Status::authentication(fmt::format("{}: peer {} at {} is not one of this job: {}", kind_.name(),
                                            to_string(stranger.dial->to), stranger.dial->address, reason)),
         events);
  else
    put_back(std::move(*stranger.dial), reason, now, events);
}

void Reception::put_back(Dial dial, const std::string& reason, TimePoint now, std::vector<Event>& events) {
  dial.again(now, reason);
  if (dial.hopeless(now)) {
    fail(dial, dial.give_up(kind_.name(), kUnreachable), events);
    return;
  }
  next_ = std::min(next_, dial.next_try);
  dials_.push_back(std::move(dial));
}

void Reception::fail(const Dial& dial, Status status, std::vector<Event>& events) {
  events.push_back(event_of(Event::Kind::failed, std::move(status), dial.to));
}

}  // namespace unisono::transport
