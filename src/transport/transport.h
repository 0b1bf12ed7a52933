#pragma once
/// The transport contract. A transport moves bytes between two processes and, where it can, lets them share memory. It
/// knows nothing of ranks, groups or collectives. tests/transport/contract_test.cc is the definition of done.
///
/// Nothing here blocks. Nothing here throws: the engine calls it in loops. Unless said otherwise an object is used by one
/// thread at a time (the engine holds its I/O lock); different objects by different threads.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/handshake.h"
#include "base/status.h"

namespace unisono::transport {

/// What came of a non-blocking read or write.
struct Io {
  enum class State : std::uint8_t {
    ok,      ///< `bytes` were moved; 0 means: would block
    closed,  ///< the peer closed its side, and all it had sent was read
    failed   ///< `error` says why
  };
  State state = State::ok;
  std::size_t bytes = 0;
  int error = 0;  ///< errno when failed
};

using ConstPart = std::span<const std::byte>;
using MutablePart = std::span<std::byte>;

/// Memory of a process, as the kernel has it (iovec): 0 bytes are none.
struct Area {
  std::atomic<std::uint64_t> address{0}, bytes{0};
};

/// Memory of another process (or thread) on this host, mapped read-only here: single writer, many readers. Buffers that their
/// owner opens for a while are the exception, and stages to which sums are returned, through writable().
/// Offsets and lengths come from the peer and are not trusted: at() checks them.
class SharedView {
 public:
  virtual ~SharedView() = default;
  /// The `bytes` at `offset` of the peer's segment, or nullptr when they are not inside it. Valid as long as this view. Any thread.
  virtual const std::byte* at(std::uint64_t offset, std::uint64_t bytes) const noexcept = 0;
  /// The same for writing: only for memory that its owner has opened to this rank (a buffer or a stage that it announced). Mapped at
  /// the first call; nullptr also when the system refuses that. Any thread.
  virtual std::byte* writable(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  /// What lies there, a multiple of 4096 bytes at one, will be read soon, or, where `write`, also written through writable(). A wish. Any thread.
  virtual void map_now(std::uint64_t offset, std::uint64_t bytes, bool write) noexcept = 0;
  /// Whether this process may read all of the peer's memory (it was tried). Any thread.
  virtual bool reads_memory() const noexcept = 0;
  /// Copies what lies at the peer's address `from` to `parts`, one behind the other; 0, or an errno (ESRCH: the peer has ended). Only what the peer has announced. Any thread.
  virtual int read_memory(std::span<const MutablePart> parts, std::uint64_t from) noexcept = 0;
  int read_memory(std::byte* to, std::uint64_t from, std::size_t bytes) noexcept {
    const MutablePart part(to, bytes);
    return read_memory({&part, 1}, from);
  }
  /// Whether this process may write to it (likewise). Any thread.
  virtual bool writes_memory() const noexcept = 0;
  /// Copies from `from` to `areas` of the peer's memory, one behind the other; 0, or an errno: EIO when less than `bytes` was copied, EFAULT also when nothing was because the areas are empty. `areas` is looked at when it begins: what a peer offers lies
  /// where the peer can take it back. Any thread.
  virtual int write_memory(std::span<const Area> areas, const std::byte* from, std::size_t bytes) noexcept = 0;
  /// The peer's address of what lies at `offset` in its segment. Any thread.
  virtual std::uint64_t address_of(std::uint64_t offset) const noexcept = 0;
  /// Wake the peer's Poller if it is parked. Cheap (a load) when it is not. Any thread. Call it after the store that the peer waits for.
  virtual void wake() noexcept = 0;
  /// wake() without its fence, for callers that have just made one.
  virtual void wake_after_fence() noexcept = 0;
  /// The processor on which the peer last waited, as it says; -1: it has not. Any thread.
  virtual int waits_on() const noexcept = 0;
  /// False once the peer's process has ended or has closed its connection. Any thread.
  virtual bool alive() const noexcept = 0;
};

/// Whether who has registered memory says so before it is freed, or nobody knows when it is.
enum class Freed : std::uint8_t { after_release, at_any_time };

/// Memory of a caller that was made part of a segment. Its whole pages are the segment's. Of the parts of pages at its two ends, where other
/// things lie, too, the segment has copies. Thread-safety: any thread.
class RegisteredMemory {
 public:
  /// What becomes of the caller's pages: private ones with what they contain; private ones with nothing that is defined; they stay the segment's for good.
  enum class Contents : std::uint8_t { kept, dropped, left };
  /// Gives the segment its pages back; release() comes first.
  virtual ~RegisteredMemory() = default;
  /// The caller's pages are his again; what was unmapped since is left alone. Once; nothing in a forked child.
  virtual void release(Contents contents = Contents::kept) noexcept = 0;
  /// The same while a peer may still write to the segment's pages: whatever it writes, the caller's pages do not show it from here on. Nothing that this process
  /// writes meanwhile is lost. False when the system has no memory for that.
  virtual bool take_over() noexcept = 0;
  /// Whether it is registered now: neither released nor taken over.
  virtual bool shared() const noexcept = 0;
  /// How many of its pages still are where they were put. All, where the system cannot tell quickly (before Linux 6.11).
  enum class Presence : std::uint8_t { all, some, none };
  virtual Presence presence() const noexcept = 0;
  /// Whether the process has forked since, and made a copy of it for its child.
  virtual bool copied_for_child() const noexcept = 0;
  /// Bring what lies at both ends to the copies, or back, as far as it is among the `bytes` at `offset` of the segment.
  virtual void to_segment(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  virtual void from_segment(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
};

/// Where memory of this process lies in its segment.
struct Place {
  std::uint64_t offset = 0;                      ///< from base(); 0: not in it
  std::shared_ptr<RegisteredMemory> registered;  ///< if that is how it came there
};

/// This process's own segment, which peers see as a SharedView. Thread-safety: any thread.
class SharedSegment {
 public:
  virtual ~SharedSegment() = default;
  virtual std::byte* base() noexcept = 0;
  virtual std::uint64_t bytes() const noexcept = 0;  ///< of address space, from base()
  /// Zeroed, 64-byte aligned memory (4096-aligned from 4096 bytes up), really committed (no SIGBUS later) and mapped; an offset from base(). An error when the segment or
  /// the machine's memory is full.
  virtual Result<std::uint64_t> allocate(std::uint64_t bytes) = 0;
  /// The same for callers' data: from 2 MiB up aligned to that, and on huge pages where the system has them.
  virtual Result<std::uint64_t> allocate_buffer(std::uint64_t bytes) = 0;
  /// The program has what allocate_buffer() returned at `offset`: a forked child gets a copy of its own, as of memory that was registered.
  virtual Status hand_out(std::uint64_t offset, std::uint64_t bytes) = 0;
  /// RegisteredMemory::take_over for what was handed out, which is not found in the segment then.
  virtual bool take_over(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  /// The program has it no more, and no peer writes to it: it is the segment's again. Not in a forked child. False: it must not be used again.
  virtual bool take_back(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  /// Give it back; large areas return their pages to the system.
  virtual void release(std::uint64_t offset, std::uint64_t bytes) noexcept = 0;
  /// Make [data, data + bytes), ordinary private memory, part of the segment: nobody may write to it during the call, nor use it in an operation, nor free it
  /// before release(), unless `freed` says that may happen: then it is not a mistake of which the log speaks. nullptr when there is no whole page in it. InvalidArgument
  /// says what it is if it is not ordinary.
  virtual Result<std::shared_ptr<RegisteredMemory>> register_memory(std::byte* data, std::uint64_t bytes,
                                                                    Freed freed = Freed::after_release) = 0;
  /// Tell peers on which processor this process waits. Any thread.
  virtual void waits_on(int processor) noexcept = 0;
  /// Where [data, data + bytes) lies.
  virtual Place find(const void* data, std::uint64_t bytes) const noexcept = 0;
  virtual std::uint64_t allocated() const noexcept = 0;
};

/// A round trip below which a peer on another host is near: what is on its way is little, and what is lost is sent again at once.
constexpr Duration kNearBy = std::chrono::milliseconds(1);

/// An ordered, reliable byte stream to one peer.
class Link {
 public:
  virtual ~Link() = default;
  /// Write as much of `parts`, in order, as can be taken now. Partial writes are normal.
  virtual Io write(std::span<const ConstPart> parts) noexcept = 0;
  /// Read what is there into `parts`, in order. Partial reads are normal.
  virtual Io read(std::span<const MutablePart> parts) noexcept = 0;
  /// What one short write of the peer brought, if that comes next, in memory where it may be looked at until the next read() or drop_front(). Empty: ask read().
  virtual ConstPart front() noexcept { return {}; }
  /// What front() gave has been read.
  virtual void drop_front() noexcept {}
  /// Whether read() may have something to do where front() gives nothing.
  virtual bool has_other_input() noexcept { return true; }
  /// For Poller::add, or -1 when the link is memory and is woken through the transport.
  virtual int fd() const noexcept = 0;
  /// The peer's shared memory, or nullptr.
  virtual SharedView* shared() noexcept = 0;
  /// The shortest time, of late, from a write to the peer's system knowing of it and back. Zero: not known, or there is none to speak of.
  virtual Duration round_trip() const noexcept { return {}; }
  /// For messages: "shm to pid 4711", "tcp to 10.0.0.2:41000".
  virtual std::string describe() const = 0;
};

/// The sleep seam: waits for file descriptors, and for wake() from other threads and from shared-memory peers.
class Poller {
 public:
  virtual ~Poller() = default;
  virtual void add(int fd) = 0;  ///< watch for reading
  virtual void remove(int fd) = 0;
  virtual void want_write(int fd, bool on) = 0;  ///< also watch for room to write
  /// Announce that this process is about to sleep: from here on peers' wake() and our own reach wait(). The caller then
  /// looks once more whether there is work, and calls wait() or cancel().
  virtual void prepare() noexcept = 0;
  virtual void cancel() noexcept = 0;
  /// Sleep until a descriptor is ready, a wake, or `timeout`. Clears the announcement. At most one thread at a time.
  virtual void wait(Duration timeout) noexcept = 0;
  /// Which watched descriptors are ready, without waiting; appended to `ready`.
  virtual void poll(std::vector<int>& ready) noexcept = 0;
  virtual void wake() noexcept = 0;  ///< any thread
};

/// What poll() reports.
struct Event {
  enum class Kind : std::uint8_t {
    up,       ///< `link` to `peer` is there, authenticated
    failed,   ///< dialling `peer` failed for good: `status`
    died,     ///< the process `peer` on this host has ended (a zombie counts), whatever its children still hold open
    rejected  ///< somebody knocked and could not prove who it is: `status`; log it and go on
  };
  Kind kind = Kind::up;
  PeerId peer;
  std::unique_ptr<Link> link;
  bool dialed = false;  ///< up: by us
  Status status;
};

/// One way to reach peers. Made by the table in transports.h.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const noexcept = 0;
  /// What peers need to reach this process: opaque text without spaces, published through the store.
  virtual std::string address() const = 0;
  /// Begin to connect to `peer` at `address` (of the same transport); the link or the failure comes from poll().
  /// Refusals that may be temporary (nobody listens yet) are tried again until `deadline`. Where there are several paths, further links to
  /// a peer take them by turns.
  virtual void dial(const PeerId& peer, const std::string& address, TimePoint deadline) = 0;
  /// How many paths lead to that address, on different networks: so many links can carry more than one.
  virtual int paths(const std::string&) const noexcept { return 1; }
  /// Move handshakes forward, accept, watch processes. `now` is the injected clock's.
  virtual void poll(TimePoint now, std::vector<Event>& events) = 0;
  /// When poll() has something to do although no descriptor became ready (a dial to try again, a handshake that has had its
  /// time, bytes that the faulty decorator held back). Whoever sleeps bounds the sleep with it. max(): nothing; TimePoint{}: at once.
  virtual TimePoint next_deadline() const noexcept { return TimePoint::max(); }
  /// What this transport needs watched while the process sleeps is added to, and kept up to date in, `poller`.
  virtual void attach(Poller& poller) = 0;
  /// This process's shared segment, or nullptr. The same object as long as the transport lives; it may outlive it.
  virtual std::shared_ptr<SharedSegment> segment() noexcept = 0;
};

}  // namespace unisono::transport
