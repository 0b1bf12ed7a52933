#pragma once
/// The shm transport: how two processes of one host meet (unix socket, credentials, handshake, memfd) and how one learns
/// that the other has ended. The bytes themselves run through Channel.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/poller.h"
#include "transport/shm/channel.h"
#include "transport/shm/offer.h"
#include "transport/shm/resting_thread.h"
#include "transport/shm/segment.h"
#include "transport/socket/reception.h"
#include "transport/socket/watch.h"
#include "transport/transports.h"

namespace unisono::transport::shm {

Result<std::unique_ptr<Transport>> make_shm(const Setup& setup, Poller& poller);

/// Links may outlive it: they then no longer notice the end of the peer's process.
class Endpoint final : public Transport, public SocketKind {
 public:
  static Result<std::unique_ptr<Transport>> create(const Setup& setup, EpollPoller& poller);
  ~Endpoint() override;

  std::string_view name() const noexcept override { return "shm"; }
  std::string address() const override { return address_; }
  void dial(const PeerId& peer, const std::string& address, TimePoint deadline) override;
  void poll(TimePoint now, std::vector<Event>& events) override;
  void attach(Poller& poller) override;
  std::shared_ptr<SharedSegment> segment() noexcept override { return segment_; }
  TimePoint next_deadline() const noexcept override;

 private:
  /// Proved, and about to exchange memory.
  struct Meeting {
    Fd socket;
    PeerId peer;
    std::optional<Dial> dial;
    TimePoint deadline;
    pid_t pid = 0;
    Fd process;
    std::shared_ptr<Channel> channel;
    OfferExchange exchange;
    bool writing = true;
  };
  /// An established link, shared with the Link that the engine owns.
  struct Line {
    Fd socket;
    PeerId peer;
    std::shared_ptr<Channel> channel;
  };
  /// A process to which lines exist or existed.
  struct Process {
    Fd fd;  ///< pidfd; empty: its end is seen as the end of its sockets
    std::uint64_t token = 0;
    int lines = 0;
  };
  /// Set by links when they go: there may be something to clean up.
  struct Sweep {
    std::atomic<bool> due{false};
  };

  Endpoint(const Setup& setup, EpollPoller& poller, std::shared_ptr<Segment> segment, std::unique_ptr<Watch> watch,
           Fd listener, std::string address);

  Result<Fd> connect(const Dial& dial, bool& final) override;
  Status admit(int fd, bool dialed, bool& final) override;
  std::string describe(int fd) const override;
  void greeted(Fd fd, const PeerId& peer, std::optional<Dial> dial, TimePoint now, std::vector<Event>& events) override;

  void advance(std::uint64_t token, TimePoint now, std::vector<Event>& events);
  void give_up(Meeting meeting, const Status& reason, bool temporary, TimePoint now, std::vector<Event>& events);
  void establish(std::uint64_t token, Meeting meeting, TimePoint now, std::vector<Event>& events);
  void watch_process(Meeting& meeting, const Offer& offer);
  void socket_ended(std::uint64_t token, std::vector<Event>& events);
  void process_ended(const PeerId& peer, std::vector<Event>& events);
  void sweep();
  void remove_line(std::map<std::uint64_t, std::shared_ptr<Line>>::iterator at);
  void rest();
  void say_no_pidfd(const std::string& why);

  Setup setup_;
  EpollPoller& home_;  ///< whose doorbell peers get
  Poller* attached_ = nullptr;
  std::shared_ptr<Segment> segment_;
  std::unique_ptr<RestingThread> resting_;  ///< once there is a peer
  std::unique_ptr<Watch> watch_;
  std::string address_;
  std::unique_ptr<Reception> reception_;
  std::map<std::uint64_t, Meeting> meetings_;
  std::map<std::uint64_t, std::shared_ptr<Line>> lines_;  ///< by the socket's token
  std::map<PeerId, Process> processes_;
  std::shared_ptr<Sweep> sweep_ = std::make_shared<Sweep>();
  bool said_no_pidfd_ = false;
  std::vector<std::uint64_t> ready_;
};

}  // namespace unisono::transport::shm
