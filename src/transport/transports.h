#pragma once
/// The table of transports, and how each is made. Adding one is a folder and a row in transports.cc.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/memory_binder.h"
#include "transport/transport.h"

namespace unisono::transport {

/// What a transport is made from.
struct Setup {
  PeerId self;
  std::shared_ptr<HandshakeFactory> handshake;
  /// tcp: IP addresses to listen on; "127.0.0.1" when all ranks are local. Links from one peer come to them by turns.
  std::vector<std::string> interface_addresses;
  std::uint64_t segment_bytes =
      256u << 20;                       ///< shm: virtual size of the segment; memory is committed as it is allocated
  std::uint64_t ring_bytes = 2u << 20;  ///< shm: largest size of a stream's ring
  bool peer_memory = true;              ///< shm: peers may read this process's memory through the kernel
  std::optional<MemoryHome> home;       ///< shm: where the segment's pages should be; nothing: as the system likes
  /// tcp: the congestion control of all connections; empty: the system's, or a better one for peers near by.
  std::string tcp_congestion;
  Logger log;
};

struct Kind {
  std::string_view name;  ///< "shm"
  std::string_view summary;
  bool same_host_only;
  Result<std::unique_ptr<Transport>> (*make)(const Setup&, Poller&);
};

std::span<const Kind> transports() noexcept;  ///< shm, tcp: in order of preference
const Kind* find_transport(std::string_view name) noexcept;

/// Ranks that are threads of one process: a hub holds their mailboxes and segments (one mapping, so that ThreadSanitizer sees
/// every access), and gives out transports that run shm's own channel code. Thread-safety: any thread.
class InprocHub {
 public:
  static std::shared_ptr<InprocHub> create();
  virtual ~InprocHub() = default;
  virtual Result<std::unique_ptr<Transport>> make(const Setup&, Poller&) = 0;
  /// Test aid: as if the process of `peer` were killed now: its links close, the others get a died event.
  virtual void kill(const PeerId& peer) = 0;
};

/// What the faulty decorator does to every link of a transport, from a seed.
struct Faults {
  std::uint64_t seed = 1;
  bool partial = false;  ///< reads and writes are cut at random, often to one byte
  Duration max_delay{
      0};  ///< written bytes become visible to the transport only after a random delay; links drift apart (reordering across links)
  std::uint64_t cut_after_bytes = 0;         ///< the link fails with ECONNRESET after so many bytes written (0: never)
  std::uint64_t black_hole_after_bytes = 0;  ///< from then on writes are swallowed and reads stay empty (0: never)
};
/// The text of Config::fault: "partial,delay=1ms,seed=3,cut=100000,blackhole=200000", in any order; delays in ns, us, ms or s.
/// The error says what is wrong and what may stand there.
Result<Faults> parse_faults(std::string_view text);
/// Wraps `inner`. The order of bytes within a link is kept always. Held-back bytes move on in poll() only (and at the end of the
/// transport); next_deadline() says when, so whoever bounds its sleep with it delays none further. `clock` must outlive the
/// transport; it dates the bytes.
std::unique_ptr<Transport> make_faulty(std::unique_ptr<Transport> inner, Faults faults, const Clock& clock);

/// epoll, an eventfd for wake(), and, with a segment, the "parked" flag that peers look at. Must outlive the transports made with
/// it. Throws SystemError when the process has no descriptors left.
std::unique_ptr<Poller> make_epoll_poller();

}  // namespace unisono::transport
