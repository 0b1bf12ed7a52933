#pragma once
/// One group's incoming frames: matched with what was posted, or kept until something is.

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/buffer.h"
#include "engine/stream.h"

namespace unisono::engine {

/// A frame that came before its receive. `claim` is set when the receive is posted while the payload is still coming.
struct Parcel {
  FrameHeader header;
  int rank = -1;
  Buffer data;
  bool complete = false;
  std::optional<Sink> claim;

  /// Whether a receive from `source` (-1: anybody) with `tag` takes this message.
  bool would_go_to(int source, std::int64_t tag) const noexcept {
    return !claim && (source < 0 || source == rank) && takes_tag(tag, static_cast<std::int64_t>(header.sequence));
  }
};

/// Two ranks called different things.
struct Discord {
  int rank = -1;  ///< the other rank
  std::uint64_t sequence = 0;
  Signature ours, theirs;
};

/// How far the ranks of a group have come, as far as one of them knows; by rank, numbers of
/// collectives, 0: none.
struct HowFar {
  std::vector<std::uint64_t> begun;     ///< the newest that it has begun
  std::vector<std::uint64_t> waits_in;  ///< the newest in which it was seen to wait
};

/// Thread-safety: under the messenger's lock.
class Inbox {
 public:
  explicit Inbox(int size) : size_(size), begun_(size) {}

  // --- collectives: one at a time in a group --------------------------------------------------------------------
  /// Operation `sequence` begins here; a frame that came early may already show that somebody called something else.
  std::optional<Discord> begin(std::uint64_t sequence, const Signature& signature);
  void end(std::uint64_t sequence);
  /// Receive the message that `header` names from `rank` to `into`, which has no completion. Completes at once when it is there.
  std::optional<Discord> post(int rank, const FrameHeader& header, Sink&& into);

  /// Whether it came early.
  bool keeps(int rank, const FrameHeader& header) const {
    return early_.contains({header.sequence, key(rank, header)});
  }

  /// What `rank` says it waits in; it may be a number that has not begun here yet.
  std::optional<Discord> on_probe(int rank, const FrameHeader& header);

  // --- how far everybody is, as far as it is known here: probes carry it on ------------------------------------------
  const std::vector<std::uint64_t>& begun() const noexcept { return begun_; }
  HowFar how_far() const;
  void note_begun(int rank, std::uint64_t sequence);
  /// What another rank knows, size() numbers; anything else is ignored.
  void merge_begun(std::span<const std::byte> payload);
  /// What collective `sequence` was here, as long as that is remembered.
  std::optional<Signature> past(std::uint64_t sequence) const;
  /// Whether something was learned that the others may not know, since this was asked last.
  bool take_news() noexcept { return std::exchange(news_, false); }

  // --- point to point ---------------------------------------------------------------------------------------------
  /// `source` -1: from anybody. Completes at once when it is there.
  void post_message(int source, std::int64_t tag, transport::MutablePart buffer, std::shared_ptr<Completion> completion,
                    Deferred& deferred);
  /// Fail posted receives that only `rank` could fulfil (all ranks in `gone` have left).
  void fail_messages(const std::vector<bool>& gone, int rank, const Status& status, Deferred& deferred);
  /// The first message that a receive of these would get; nothing when none is known of.
  std::optional<Arrival> first_message(int source, std::int64_t tag) const;
  /// Whether a receive is posted that would take a message of these.
  bool has_receive(int source, std::int64_t tag) const;
  /// No message waits for its receive, and no receive for its message.
  bool no_messages() const noexcept { return receives_.empty() && messages_.empty(); }

  // --- frames -----------------------------------------------------------------------------------------------------
  /// Nothing: too much is being kept already, or, where the caller is `patient`, the frame is large and its receive is not posted
  /// yet: left with the transport for a moment it need not be copied.
  std::optional<Sink> on_frame(int rank, const FrameHeader& header, std::optional<Discord>& discord,
                               bool patient = false);
  void on_payload(int rank, const FrameHeader& header, Sink& sink, Deferred& deferred);

  /// The rest of this message will not come. Whoever waits for it is told `status`.
  void give_up(const std::shared_ptr<Parcel>& parcel, const Status& status, Deferred& deferred);

  /// Whether anything is awaited, and from `rank`: what was posted and has not begun to come.
  bool awaits() const noexcept { return !posts_.empty() || !receives_.empty(); }
  bool awaits(int rank) const noexcept;

  /// Whether no message has met this receive yet.
  bool is_posted(const Completion* receive) const noexcept;
  /// Give up on a receive that no message has met. False: it has met one, or it is no receive.
  bool withdraw(const Completion* receive, const Status& status, Deferred& deferred);
  /// Let go of everything that was posted (or only of the receive of `only`), completing it with `status`.
  void forget(const Completion* only, const Status& status, Deferred& deferred);

 private:
  struct Post {
    Sink into;
    std::uint64_t length;
  };
  struct Receive {
    int source;
    std::int64_t tag;
    transport::MutablePart buffer;
    std::shared_ptr<Completion> completion;

    bool takes(int rank, std::int64_t sent) const noexcept {
      return (source < 0 || source == rank) && takes_tag(tag, sent);
    }
  };
  struct Past {
    std::uint64_t sequence = 0;
    Signature signature;
  };
  using Key = std::uint64_t;
  static constexpr int kRankAt = 44;  ///< the bit of a key from which on it is the rank
  static Key key(int rank, const FrameHeader& h) noexcept;
  std::optional<Discord> check(int rank, const FrameHeader& header) const;
  std::optional<Sink> keep(int rank, const FrameHeader& header, bool patient);
  Buffer buffer(std::size_t bytes);
  void recycle(Buffer buffer);
  void deliver(Parcel& parcel, Sink& into, Deferred& deferred);
  static void finish_message(const FrameHeader& header, int rank, std::size_t room,
                             const std::shared_ptr<Completion>& completion, Deferred& deferred);

  int size_;
  std::vector<std::uint64_t> begun_;
  bool news_ = false;
  bool active_ = false;
  std::uint64_t sequence_ = 0;  ///< of the newest operation that began here
  Signature signature_;
  std::deque<Past> past_;              ///< a few finished ones, to recognise late frames
  std::map<int, FrameHeader> probes_;  ///< the newest of each rank
  std::unordered_map<Key, Post> posts_;
  std::map<std::pair<std::uint64_t, Key>, std::shared_ptr<Parcel>> early_;  ///< by (sequence, key)
  std::deque<Receive> receives_;
  std::list<std::shared_ptr<Parcel>> messages_;
  std::uint64_t kept_bytes_ = 0;
  std::vector<Buffer> spare_;  ///< of parcels that were delivered: new memory costs more than the copy
};

}  // namespace unisono::engine
