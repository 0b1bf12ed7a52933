#pragma once
/// The tcp transport: a listening socket on each interface in use, connections on demand, a Link on each.

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/socket/reception.h"
#include "transport/socket/watch.h"
#include "transport/tcp/address.h"
#include "transport/tcp/congestion.h"
#include "transport/tcp/link.h"
#include "transport/transports.h"

namespace unisono::transport::tcp {

Result<std::unique_ptr<Transport>> make_tcp(const Setup& setup, Poller& poller);

class TcpTransport final : public Transport, public SocketKind {
 public:
  static Result<std::unique_ptr<Transport>> create(const Setup& setup);
  ~TcpTransport() override;  ///< waits, at most 5 s, until peers have what was sent to them

  std::string_view name() const noexcept override { return "tcp"; }
  std::string address() const override { return address_; }
  void dial(const PeerId& peer, const std::string& address, TimePoint deadline) override;
  int paths(const std::string& address) const noexcept override;
  void poll(TimePoint now, std::vector<Event>& events) override;
  void attach(Poller& poller) override;
  std::shared_ptr<SharedSegment> segment() noexcept override { return nullptr; }
  TimePoint next_deadline() const noexcept override;

  Result<Fd> connect(const Dial& dial, bool& final) override;
  Status admit(int fd, bool dialed, bool& final) override;
  std::string describe(int fd) const override;
  void greeted(Fd fd, const PeerId& peer, std::optional<Dial> dial, TimePoint now, std::vector<Event>& events) override;

 private:
  struct Lingering {
    Fd fd;
    TimePoint deadline, next_look;
    Duration pause;
  };
  TcpTransport(const Setup& setup, std::unique_ptr<Watch> watch, std::vector<Fd> listeners, Congestion congestion);
  void take_departed(TimePoint now);
  void look_after_lingering(TimePoint now);
  void linger();

  std::unique_ptr<Watch> watch_;
  Congestion congestion_;
  Logger log_;
  bool said_near_ = false;
  std::string address_;                    ///< of all listeners, with commas between them
  std::map<PeerId, std::uint64_t> dials_;  ///< so many were begun: whose turn it is of the peer's addresses
  bool large_buffers_ = allows_large_buffers();
  Poller* attached_ = nullptr;
  std::unique_ptr<Reception> reception_;
  std::shared_ptr<Departed> departed_ = std::make_shared<Departed>();
  std::map<std::uint64_t, Lingering> lingering_;
  TimePoint next_linger_ = TimePoint::max();
  std::vector<std::uint64_t> ready_;
};

}  // namespace unisono::transport::tcp
