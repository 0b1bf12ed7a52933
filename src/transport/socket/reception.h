#pragma once
/// The front door that shm and tcp share: listening sockets, dials that are tried again, and handshakes in progress, with
/// limits that a scanner, a slow client or a lack of descriptors cannot turn into harm.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/handshake.h"
#include "base/log.h"
#include "transport/dialing.h"
#include "transport/greeting.h"
#include "transport/socket/watch.h"
#include "transport/transport.h"

namespace unisono::transport {

/// What differs between kinds of sockets.
class SocketKind {
 public:
  virtual ~SocketKind() = default;
  virtual std::string_view name() const noexcept = 0;
  /// Begin to connect, without blocking. On failure a Status; `final` says that trying again is of no use.
  virtual Result<Fd> connect(const Dial& dial, bool& final) = 0;
  /// Look at a connection before a byte is exchanged. An error refuses it; `final` as above (dialled connections).
  virtual Status admit(int fd, bool dialed, bool& final) = 0;
  /// Who is on the other side, for messages: "pid 4711", "10.0.0.2:41000".
  virtual std::string describe(int fd) const = 0;
  /// The handshake is done; the connection is the callee's. `dial`: when it was ours.
  virtual void greeted(Fd fd, const PeerId& peer, std::optional<Dial> dial, TimePoint now,
                       std::vector<Event>& events) = 0;
};

/// One thread at a time.
class Reception {
 public:
  static constexpr std::size_t kMaxStrangers = 64;  ///< accepted connections without a proof
  static constexpr Duration kHandshakeTime = std::chrono::seconds(20);

  static constexpr std::size_t kMostListeners = 16;

  /// `listeners` are listening, non-blocking sockets, kMostListeners at most. `watch` and `kind` must outlive this.
  Reception(std::vector<Fd> listeners, Watch& watch, SocketKind& kind, std::shared_ptr<HandshakeFactory> handshake,
            Logger log);
  ~Reception();
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;
  Status start();

  void dial(Dial dial);
  /// A dial that failed behind its handshake goes back into the queue, or fails when its time is over.
  void put_back(Dial dial, const std::string& reason, TimePoint now, std::vector<Event>& events);
  /// Moves everything forward. Tokens that are not ours are left in `ready`.
  void poll(TimePoint now, std::vector<std::uint64_t>& ready, std::vector<Event>& events);
  TimePoint next_deadline() const noexcept { return next_; }
  /// Tokens for a Watch, never given twice.
  std::uint64_t new_token() noexcept { return ++last_token_; }

 private:
  struct Stranger {
    Fd fd;
    Greeting greeting;
    TimePoint since, deadline;
    std::optional<Dial> dial;
    bool connecting = false;  ///< a dial that the network has not answered yet
    bool writing = false;     ///< watched for room to write
  };
  using Strangers = std::map<std::uint64_t, Stranger>;

  Status watch_listeners();
  void ignore_listeners() noexcept;
  void accept(const Fd& listener, TimePoint now, std::vector<Event>& events);
  void admit_caller(Fd fd, TimePoint now, std::vector<Event>& events);
  bool make_room(TimePoint now, std::vector<Event>& events);
  void pause_accepting(TimePoint until);
  void try_dials(TimePoint now, std::vector<Event>& events);
  void try_dial(Dial dial, TimePoint now, std::vector<Event>& events);
  void advance(Strangers::iterator at, TimePoint now, std::vector<Event>& events);
  bool connected(Stranger& stranger, std::string& reason, bool& final);
  void expire(TimePoint now, std::vector<Event>& events);
  void refuse(Strangers::iterator at, const std::string& reason, bool final, TimePoint now, std::vector<Event>& events);
  void fail(const Dial& dial, Status status, std::vector<Event>& events);
  void plan_next();

  std::vector<Fd> listeners_;  ///< their tokens are their positions
  Watch& watch_;
  SocketKind& kind_;
  std::shared_ptr<HandshakeFactory> handshake_;
  Logger log_;
  std::uint64_t last_token_ = kMostListeners;
  Strangers strangers_;
  std::size_t callers_ = 0;                ///< strangers that we accepted
  std::vector<Dial> dials_;                ///< waiting for their next try
  std::optional<TimePoint> accept_again_;  ///< the listeners are not watched until then
  bool out_of_descriptors_ = false;        ///< said so once
  TimePoint next_ = TimePoint::max();
};

}  // namespace unisono::transport
