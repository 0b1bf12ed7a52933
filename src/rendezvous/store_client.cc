#include "rendezvous/store_client.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <random>

#include "base/clock.h"
#include "base/process_mark.h"
#include "rendezvous/answer_by.h"
#include "rendezvous/key_values.h"
#include "rendezvous/request_store.h"
#include "rendezvous/socket.h"
#include "rendezvous/store_protocol.h"

namespace unisono::rendezvous {
namespace {

constexpr Duration kFirstPause = std::chrono::milliseconds(5);
constexpr Duration kLongestPause = std::chrono::milliseconds(500);
// One connect, and one handshake, on one address.
constexpr Duration kAttempt = std::chrono::seconds(5);
// To reach a server that has hung up once.
constexpr Duration kLastTry = std::chrono::milliseconds(200);
// An answer that a living server gives.
constexpr Duration kSoon = std::chrono::milliseconds(300);
constexpr Duration kLateAnswer =
    std::chrono::seconds(2);  // what a server may need beyond the timeout that it keeps itself

TimePoint now() { return std::chrono::steady_clock::now(); }
double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

/// A connection that has proved itself and carries one request at a time.
struct Wire {
  Fd fd;
  FrameReader in;
  bool has_last_words = false;  ///< the server publishes something when it ends without a goodbye
};

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

Status send_all(int fd, std::span<const std::byte> bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(fd, POLLOUT, deadline)) return Status::timeout("it takes no more data");
    } else if (errno != EINTR) {
      return Status::system("sending failed", errno);
    }
  }
  return {};
}

/// At least one byte into `buffer`; what was read. The end of the stream is an error.
Result<std::span<const std::byte>> receive_some(int fd, std::span<std::byte> buffer, TimePoint deadline) {
  for (;;) {
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (n > 0) return std::span<const std::byte>(buffer.first(static_cast<std::size_t>(n)));
    if (n == 0) return Status::system("the server closed the connection", 0);
    if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait_for(fd, POLLIN, deadline)) return Status::timeout("no answer");
    } else if (errno != EINTR) {
      return Status::system("receiving failed", errno);
    }
  }
}

Status shake_hands(int fd, Handshake& handshake, TimePoint deadline) {
  std::array<std::byte, 512> buffer;
  UNISONO_TRY(send_all(fd, handshake.take_output(), deadline));
  for (;;) {
    // Nothing follows the handshake unasked, so that reading ahead cannot swallow an answer.
    auto bytes = receive_some(fd, buffer, deadline);
    if (!bytes) return bytes.status();
    std::size_t consumed = 0;
    const auto state = handshake.feed(*bytes, consumed);
    const Bytes reply = handshake.take_output();
    const Status sent = send_all(fd, reply, deadline);
    if (state == Handshake::State::rejected) return Status::authentication(handshake.reason());
    if (!sent.ok()) return sent;
    if (state == Handshake::State::done) return {};
  }
}

/// What one round over all addresses came to.
struct Round {
  std::optional<Wire> wire;
  Status refused;       ///< somebody answered who does not belong to the job: trying again is of no use
  bool silent = false;  ///< somebody has the address and says nothing
  std::string tried;    ///< "10.0.0.1:29500: Connection refused (errno 111); ..."
};

Round try_all(const Endpoint& to, HandshakeFactory& factory, TimePoint deadline) {
  Round round;
  const auto note = [&](const std::string& what) { round.tried += (round.tried.empty() ? "" : "; ") + what; };
  const auto addresses = resolve(to);
  if (!addresses) {
    note(addresses.status().message());
    return round;
  }
  for (const Address& address : *addresses) {
    const TimePoint limit = std::min(deadline, saturating_add(now(), kAttempt));
    auto fd = connect_to(address, limit);
    if (!fd) {
      note(fd.status().message());
      continue;
    }
    Status status = check_peer_user(fd->get());
    if (status.ok()) {
      const auto handshake = factory.dial(PeerId{});
      status = shake_hands(fd->get(), *handshake, limit);
    }
    if (status.ok()) {
      round.wire = Wire{std::move(*fd), {}, false};
      return round;
    }
    round.silent |= status.code() == Code::timeout;
    if (status.code() == Code::authentication) round.refused = status.with_context(to_string(address));
    note(fmt::format("{}: connected, but {}{}", to_string(address), status.message(),
                     status.code() == Code::timeout
                         ? " (does the port belong to another program? Is the one that listens there stopped?)"
                         : ""));
  }
  return round;
}

Result<Wire> dial(const Endpoint& to, HandshakeFactory& factory, Duration patience) {
  const TimePoint start = now();
  const TimePoint deadline = saturating_add(start, patience);
  std::minstd_rand random(static_cast<unsigned>(start.time_since_epoch().count()));
  Duration pause = kFirstPause;
  for (int attempts = 1;; attempts++) {
    Round round = try_all(to, factory, deadline);
    if (round.wire) return std::move(*round.wire);
    if (!round.refused.ok())
      return Status::authentication(
          fmt::format("the store at {} was not joined: {}", to_string(to), round.refused.message()));
    // Apart, so that a thousand ranks that start together do not knock together.
    const Duration wait =
        pause / 2 + Duration(std::uniform_int_distribution<std::int64_t>(0, pause.count() / 2)(random));
    if (now() + wait >= deadline)
      return Status(
          round.silent ? Code::timeout : Code::system,
          fmt::format("cannot reach the store at {} within {:.1f} s, {} attempts; the last one: {}. Is rank 0 "
                      "(or the launcher) running, and is this its address?",
                      to_string(to), seconds(patience), attempts, round.tried));
    ::poll(nullptr, 0, milliseconds_until(now() + wait));
    pause = std::min(pause * 2, kLongestPause);
  }
}

class StoreClient final : public RequestStore, public AnswersInTime {
 public:
  StoreClient(Endpoint to, StoreClientOptions options, Wire first) : to_(std::move(to)), options_(std::move(options)) {
    idle_.push_back(std::move(first));
  }
  ~StoreClient() override {
    if (!process_.here()) return;  // a forked child: its parent stays
    for (const auto* wires : {&idle_, &unanswered_})
      for (const Wire& wire : *wires) say_goodbye(wire);
  }

  /// For errors. A store without that key is no job's; one that is lost meanwhile was a former
  /// job's: whoever asks next finds out.
  void learn_who_serves(TimePoint deadline) {
    try {
      const Bytes text = *ask({StoreOp::get, {kServedByKey}, {}, {}}, deadline).value;
      server_ = first_line({reinterpret_cast<const char*>(text.data()), text.size()});
    } catch (const Error&) {
    }
  }
  std::string describe() const override {
    return fmt::format("{} store at {}", to_.is_unix() ? "unix" : "tcp", to_string(to_));
  }

  std::shared_ptr<Store> answering_by(TimePoint deadline) override;
  /// As call(); but the answer is waited for until `deadline` at most, or kSoon where that has
  /// passed.
  StoreResponse ask(const StoreRequest& request, TimePoint deadline) {
    throw_status(process_.check(describe()));
    throw_status(check_keys(request.keys).with_context(describe()));
    const Duration patience = std::min(patience_for(request), soonest(request, deadline));
    const TimePoint until = saturating_add(now(), patience);
    Wire wire = take_wire(request, until, patience);
    wire.has_last_words |= request.op == StoreOp::when_gone;
    auto response = exchange(wire, request, until);
    silent_ = !response && response.status().code() == Code::timeout;
    if (!response) {
      // Closing it would say that this process has ended.
      if (wire.has_last_words && silent_) keep_open(std::move(wire));
      if (response.status().code() == Code::system) hung_up_ = true;
      throw_status(lost(response.status(), request, patience));  // and the wire is closed
    }
    give_back(std::move(wire));
    throw_status(status_of(*response, describe(), request.timeout));
    return std::move(*response);
  }

 private:
  StoreResponse call(const StoreRequest& request) override { return ask(request, TimePoint::max()); }

  static bool waits(const StoreRequest& r) { return r.op == StoreOp::get || r.op == StoreOp::wait; }
  Duration patience_for(const StoreRequest& r) const {
    if (!waits(r)) return options_.answer_timeout;
    // A server that was silent before gets no second chance.
    const Duration late = silent_ ? kSoon : kLateAnswer;
    return r.timeout + std::min(late, Duration::max() - r.timeout);
  }
  static Duration soonest(const StoreRequest& r, TimePoint deadline) {
    if (deadline == TimePoint::max()) return Duration::max();
    const Duration least = waits(r) ? r.timeout + std::min(kSoon, Duration::max() - r.timeout) : kSoon;
    return std::max<Duration>(deadline - now(), least);
  }

  static Status check_keys(const std::vector<std::string>& keys) {
    std::size_t bytes = 0;
    for (const auto& key : keys) {
      UNISONO_TRY(check_key(key));
      bytes += key.size() + 4;
    }
    if (bytes > kMaxKeysBytes)
      return Status::invalid(
          fmt::format("{} keys in one call have {} bytes, the limit is {}", keys.size(), bytes, kMaxKeysBytes));
    return {};
  }

  static Result<StoreResponse> exchange(Wire& wire, const StoreRequest& request, TimePoint deadline) {
    UNISONO_TRY(send_all(wire.fd.get(), encode(request), deadline));
    std::vector<std::byte> buffer(64 * 1024);
    for (;;) {
      if (auto frame = wire.in.next()) return decode_response(*frame);
      auto bytes = receive_some(wire.fd.get(), buffer, deadline);
      if (!bytes) return bytes.status();
      UNISONO_TRY(wire.in.feed(*bytes));
    }
  }

  /// A connection that nobody uses, or a new one. The server was there before: it is not waited for again for long.
  Wire take_wire(const StoreRequest& request, TimePoint until, Duration patience) {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        Wire wire = std::move(idle_.back());
        idle_.pop_back();
        return wire;
      }
    }
    const Duration least = hung_up_ ? kLastTry : std::min(options_.connect_timeout, options_.answer_timeout);
    auto wire = dial(to_, *options_.handshake, std::min<Duration>(least, until - now()));
    if (!wire) {
      silent_ = wire.status().code() == Code::timeout;
      if (silent_) throw_status(lost(wire.status(), request, patience));
      throw_status(wire.status().with_context(fmt::format("{}: {}", describe(), list_keys(request.keys))));
    }
    return std::move(*wire);
  }

  /// Not waited for: the server reads it before it sees the end of the connection.
  static void say_goodbye(const Wire& wire) noexcept {
    if (!wire.has_last_words) return;
    const Bytes goodbye = encode({StoreOp::when_gone, {}, {}, {}});
    (void)!::send(wire.fd.get(), goodbye.data(), goodbye.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  void keep_open(Wire wire) {
    std::lock_guard lock(mutex_);
    unanswered_.push_back(std::move(wire));
  }

  void give_back(Wire wire) {
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(wire));
  }

  Status lost(const Status& why, const StoreRequest& request, Duration patience) const {
    if (why.code() == Code::timeout)
      return Status::timeout(fmt::format(
          "{}: {}: {} serves it and has not answered for {:.3f} s: its process is stopped, or its host is "
          "cut off. `ps -o stat= -p PID` there shows T where it is stopped; kill -CONT PID lets it go on",
          describe(), list_keys(request.keys), server_.empty() ? "its server" : server_, seconds(patience)));
    return Status::system(
        fmt::format("{}: lost it while asking for {}: {}; has {} ended?", describe(), list_keys(request.keys),
                    why.message(), server_.empty() ? "rank 0 (or the launcher)" : server_),
        0);
  }

  const ProcessMark process_;
  const Endpoint to_;
  const StoreClientOptions options_;
  std::string server_;                // "rank 0 (host a, pid 1)"; empty: it has not said
  std::atomic<bool> hung_up_{false};  // the server has closed a connection
  std::atomic<bool> silent_{false};   // and it has not answered the last request
  std::mutex mutex_;
  std::vector<Wire> idle_;
  // An answer is missing on them: open until this ends, never used again.
  std::vector<Wire> unanswered_;
};

/// See AnswersInTime.
class InTime final : public RequestStore, public AnswersInTime {
 public:
  InTime(StoreClient& client, TimePoint deadline) : client_(client), deadline_(deadline) {}
  std::string describe() const override { return client_.describe(); }
  std::shared_ptr<Store> answering_by(TimePoint deadline) override {
    return client_.answering_by(std::min(deadline, deadline_));
  }

 private:
  StoreResponse call(const StoreRequest& request) override { return client_.ask(request, deadline_); }

  StoreClient& client_;
  const TimePoint deadline_;
};

std::shared_ptr<Store> StoreClient::answering_by(TimePoint deadline) {
  return std::make_shared<InTime>(*this, deadline);
}

}  // namespace

Result<std::shared_ptr<Store>> connect_store(const Endpoint& to, StoreClientOptions options) {
  if (!options.handshake) return Status::internal("a store client without a handshake");
  const TimePoint deadline = saturating_add(now(), options.connect_timeout);
  auto wire = dial(to, *options.handshake, options.connect_timeout);
  if (!wire) return wire.status().code() == Code::timeout ? Status::system(wire.status().message(), 0) : wire.status();
  auto client = std::make_shared<StoreClient>(to, std::move(options), std::move(*wire));
  client->learn_who_serves(deadline);
  return std::shared_ptr<Store>(std::move(client));
}

}  // namespace unisono::rendezvous
