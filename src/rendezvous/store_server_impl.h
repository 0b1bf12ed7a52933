#pragma once
/// The store server's inside, for its two source files.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/process_mark.h"
#include "rendezvous/key_values.h"
#include "rendezvous/store_protocol.h"
#include "rendezvous/store_server.h"

namespace unisono::rendezvous::server {

using Id = std::uint64_t;
inline constexpr Id kListener = 0;
inline constexpr Id kWake = 1;
inline constexpr std::size_t kMaxBytesBeforeProof = 4096;

inline TimePoint now() { return std::chrono::steady_clock::now(); }

/// An answer, as far as it was sent.
struct Outgoing {
  Bytes head;
  std::shared_ptr<const Bytes> value;
  std::size_t sent = 0;
  std::size_t size() const noexcept { return head.size() + (value ? value->size() : 0); }
};

/// One client, or a stranger that may become one.
struct Connection {
  Fd fd;
  std::string from;                      // for log lines
  std::unique_ptr<Handshake> handshake;  // until the other side has proved itself
  std::size_t handshake_bytes = 0;
  TimePoint since{};
  FrameReader in;
  std::size_t counted = 0;      // bytes of `in` that are in the server's total
  std::optional<Outgoing> out;  // one answer at a time: the next request waits in the socket
  std::optional<StoreRequest> parked;
  std::deque<std::pair<std::string, Bytes>> last_words;  // to be set when it ends without a goodbye
  std::string parked_on;                                 // the key it waits for
  // Of the handshake, or of the parked request.
  std::optional<TimePoint> deadline;
  bool authenticated() const noexcept { return !handshake; }
};

/// Everything but the constructor, endpoint() and wait_until_idle() runs in the serving thread. Functions that may close the
/// connection return false when they did: its reference is dangling then.
class Server final : public StoreServer {
 public:
  Server(Endpoint at, Fd listener, Fd epoll, Fd wake, StoreServerOptions options)
      : endpoint_(std::move(at)),
        listener_(std::move(listener)),
        epoll_(std::move(epoll)),
        wake_(std::move(wake)),
        options_(std::move(options)),
        values_(options_.max_memory),
        thread_([this] { serve(); }) {}

  ~Server() override;

  const Endpoint& endpoint() const noexcept override { return endpoint_; }

  void stop_listening() override;

  void set_first(std::string key, Bytes value) override;

  bool wait_until_idle(Duration timeout) override {
    if (!process_.here()) return true;
    std::unique_lock lock(mutex_);
    return idle_.wait_until(lock, saturating_add(now(), timeout), [this] { return clients_ == 0; });
  }

 private:
  void serve() noexcept;
  void serve_round();
  // Who comes in: store_server_accept.cc
  void on_listener();
  bool make_room();
  void pause_accepting(TimePoint until);
  void set_listener_mask(std::uint32_t events);
  void add_connection(Fd fd, std::string from);
  bool advance_handshake(Id id, Connection& c, std::span<const std::byte> bytes);
  void joined(Id id, Connection& c);
  // What they want
  void on_readable(Id id, Connection& c);
  bool feed_frames(Id id, Connection& c, std::span<const std::byte> bytes);
  bool take_requests(Id id, Connection& c);
  static StoreResponse keep_last_words(Connection& c, StoreRequest& request);
  void publish_last_words();
  void on_hang_up(Id id, Connection& c);
  bool answer(Id id, Connection& c, StoreResponse response);
  bool flush(Id id, Connection& c);
  void park(Id id, Connection& c, StoreRequest request, TimePoint deadline);
  void unpark(Id id, Connection& c);
  void on_wake();
  void wake_thread() noexcept;
  void wake_waiters(const std::string& key);
  void retry_parked(Id id);
  void on_deadlines();
  void set_deadline(Id id, Connection& c, std::optional<TimePoint> deadline);
  void set_mask(Id id, const Connection& c);
  bool close(Id id, std::string_view why);
  void count_clients(int delta);

  const ProcessMark process_;
  Endpoint endpoint_;
  Fd listener_, epoll_, wake_;
  StoreServerOptions options_;
  // Of the serving thread alone:
  KeyValues values_;
  std::map<Id, Connection> connections_;
  std::set<Id> strangers_;  // not authenticated yet; the smallest id is the oldest
  std::set<std::pair<TimePoint, Id>> deadlines_;
  std::unordered_multimap<std::string, Id> waiting_;
  std::optional<TimePoint> accept_again_;
  std::vector<std::pair<std::string, Bytes>> due_;  // last words of connections that have ended
  std::size_t buffered_ = 0;
  Id next_id_ = 2;
  // Shared:
  std::atomic<bool> stopping_{false}, closed_to_newcomers_{false};
  std::mutex mutex_;
  std::condition_variable idle_;
  std::vector<std::pair<std::string, Bytes>> handed_in_;  // by set_first()
  int clients_ = 0;
  std::thread thread_;  // the last member: it uses all the others
};

}  // namespace unisono::rendezvous::server
