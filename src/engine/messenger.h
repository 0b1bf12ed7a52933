#pragma once
/// All links of a process: who can be reached and how, frames in and out, and the news of failures.

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/log.h"
#include "engine/abort_record.h"
#include "engine/bundle.h"
#include "engine/failure.h"
#include "engine/handover.h"
#include "engine/inbox.h"
#include "engine/membership.h"
#include "engine/stream.h"
#include "transport/transport.h"

namespace unisono::engine {

/// Another process, as published through the store.
struct PeerAddress {
  PeerId id;
  std::string host;           ///< for messages
  std::int64_t pid = 0;       ///< for messages
  std::size_t transport = 0;  ///< index into the messenger's transports
  std::string address;
};

/// How closely poll() looks.
enum class Look : std::uint8_t {
  memory,  ///< links that are memory: no call into the kernel
  quick,   ///< also sockets, by the shortest way, with a look at everything now and then: for whoever polls in a loop
  all      ///< descriptors, connections and processes; and the poller knows then what to wake a sleeper for
};

/// Thread-safety: any thread; one lock inside. Callbacks of completions run without it.
class Messenger final : private FrameHandler {
 public:
  Messenger(PeerId self, std::vector<std::unique_ptr<transport::Transport>> transports, transport::Poller& poller,
            const Clock& clock, Logger log);
  ~Messenger() override;

  transport::Transport& transport(std::size_t index) { return *transports_[index]; }
  std::size_t transports() const noexcept { return transports_.size(); }
  void add_transport(std::unique_ptr<transport::Transport> transport);

  // --- peers ------------------------------------------------------------------------------------------------------
  /// A number for the peer; the same one when it is known already.
  int add_peer(const PeerAddress& address);
  /// Begin to connect, unless a link is there or under way.
  void dial(int peer, TimePoint deadline);
  bool connected(int peer) const;
  Status peer_status(int peer) const;  ///< why it cannot be reached, if so
  /// Large frames to the peer go over so many streams, from 1 to Sharing::kMostStreams, or one for each path to it (0). Where this process dialled, those that are missing are dialled now
  /// (once there is a first one), and those that are too many are closed in good order. One that cannot be had is one line in the log.
  void use_streams(int peer, int streams);
  /// The same for all peers that share no memory with this process, those that are yet to come included.
  void use_streams(const Sharing& sharing);
  int streams(int peer) const;          ///< that are open
  Duration round_trip(int peer) const;  ///< transport::Link's, on the first stream
  bool opening(int peer) const;         ///< more are under way from here
  /// Use no more than so many of those that are open, until use_streams().
  void limit_streams(int peer, int streams);
  transport::SharedView* shared(int peer) const;

  /// Where a peer that shares memory with this process last waited, as it says.
  struct Neighbour {
    PeerId id;
    int processor = -1;
    friend bool operator==(const Neighbour&, const Neighbour&) = default;
  };
  std::vector<Neighbour> neighbours() const;

  // --- groups -----------------------------------------------------------------------------------------------------
  /// `members[r]` is the peer number of rank r (-1: this process). Frames and failures that came earlier are applied.
  void open_group(std::uint64_t group, std::string name, int rank, std::vector<int> members,
                  std::shared_ptr<Failure> failure);
  /// This process leaves the group, and says so to the members at once: behind all that it has sent
  /// them. What is still in flight ends. `collectives`: how many it has taken part in. `counted`:
  /// where what cannot be said yet counts.
  void close_group(std::uint64_t group, std::uint64_t collectives, const std::shared_ptr<UnderWay>& counted = nullptr);
  /// The group cannot go on: here, and, when `flood`, on all members.
  void fail_group(std::uint64_t group, const Status& status, bool flood);
  /// Ranks of the group that have destroyed it, have left in good order or died.
  std::vector<bool> gone(std::uint64_t group) const;
  /// Why it is no use to wait for `ranks` in an operation of the group: the first of them that is
  /// gone; ok when none is.
  Status departure(std::uint64_t group, std::span<const int> ranks) const;
  /// Why it is no use to wait for a message from any of `ranks`: all of them are gone; ok when one is
  /// not, or when there are none.
  Status all_departed(std::uint64_t group, std::span<const int> ranks) const;
  /// The same for a collective that needs all: who has destroyed the group before that collective.
  Status departure_before(std::uint64_t group, std::uint64_t sequence) const;

  // --- collectives (Operation) --------------------------------------------------------------------------------------
  void begin(std::uint64_t group, std::uint64_t sequence, const Signature& signature);
  void end(std::uint64_t group, std::uint64_t sequence);
  /// Nothing has moved for a while: tell those members that a link leads to what we wait in. If they wait in something else,
  /// one of us finds out.
  void probe(std::uint64_t group, std::uint64_t sequence, const Signature& signature);
  /// Whether more is known, since the last question, of how far the others are: worth another probe, which passes it on.
  bool heard_news(std::uint64_t group);
  HowFar how_far(std::uint64_t group) const;
  /// What a collective of this rank was, as long as that is remembered.
  std::optional<Signature> past(std::uint64_t group, std::uint64_t sequence) const;
  void send(std::uint64_t group, int rank, const FrameHeader& header, std::span<const transport::MutablePart> parts,
            StepFlag* flag);
  void receive(std::uint64_t group, int rank, const FrameHeader& header, Sink&& into);
  /// Instead of receive(): the message that `header` names, if it is what comes next from `rank` and comes within so many looks. Other threads wait for the
  /// messenger meanwhile. Of which a part has come is as if it had been posted, and may be asked for again.
  Stream::Found collect(std::uint64_t group, int rank, const FrameHeader& header, transport::MutablePart into,
                        StepFlag* flag, int looks);
  /// No flag or memory of the group's collectives is used after this.
  void forget(std::uint64_t group, const Status& status);

  // --- point to point ---------------------------------------------------------------------------------------------
  /// Empty when all of it was sent at once. `place`: where the data lie in the segment that was lent, or an empty one if they are private and the receiver can read them, if they are to be handed over; then nothing is sent but where that is.
  /// `counted`: where a message that is not complete yet counts.
  std::shared_ptr<Completion> send_message(std::uint64_t group, int rank, std::int64_t tag, transport::ConstPart data,
                                           const transport::Place* place = nullptr,
                                           const std::shared_ptr<UnderWay>& counted = nullptr);
  /// Of what was sent at once, for who needs one.
  const std::shared_ptr<Completion>& sent() const noexcept { return sent_; }
  std::shared_ptr<Completion> receive_message(std::uint64_t group, int rank, std::int64_t tag,
                                              transport::MutablePart buffer,
                                              const std::shared_ptr<UnderWay>& counted = nullptr);
  /// A brief message from `rank` that comes next on the way from it, in up to `looks` looks, to `buffer`, without a receive that is posted. Other than `here`: nothing
  /// is taken; when something else comes next, or another receive comes first, a receive has to be posted.
  Stream::Brief receive_now(std::uint64_t group, int rank, std::int64_t tag, transport::MutablePart buffer, int looks,
                            Arrival& arrival);
  /// The first message that a receive of these would get, if it is known of.
  std::optional<Arrival> first_message(std::uint64_t group, int rank, std::int64_t tag) const;
  /// Whether a receive is posted that would take a message of these.
  bool has_receive(std::uint64_t group, int rank, std::int64_t tag) const;

  /// Give up on one message; its memory is not used after this. (One that is being handed over comes to its end first, if the peer runs.)
  void cancel(std::uint64_t group, const std::shared_ptr<Completion>& completion, const Status& status);

  /// Give up on a receive to which nothing has come, so that nothing is lost. False: something has,
  /// or it is no receive.
  bool withdraw_receive(std::uint64_t group, const std::shared_ptr<Completion>& completion, const Status& status);

  // --- who waits for whom (WaitCycles) ------------------------------------------------------------
  /// Tell a peer, behind all that was sent to it before.
  void send_wait(int peer, std::span<const std::byte> notice);
  /// What is to hear what peers tell. It is called inside poll(), under the messenger's lock.
  void hear_waits(std::function<void(int peer, std::span<const std::byte> notice)> hear);
  /// Whether a receive still waits for the beginning of its message.
  bool awaits(std::uint64_t group, const Completion* receive);

  /// After a failure: a peer may go on writing where memory at [data, data + bytes) lies in the segment, as it is stopped. What is returned is kept until it is known not to.
  using Unsettled = std::function<std::vector<std::shared_ptr<const void>>(const void* data, std::size_t bytes)>;
  /// Large messages from and to this process's segment are handed over from now on. Before the first peer.
  void lend(std::shared_ptr<transport::SharedSegment> segment, Unsettled unsettled);

  // --- progress -----------------------------------------------------------------------------------------------------
  /// Move what can be moved. False when nothing moved, or when another thread is at it.
  bool poll(Look look);
  /// Whether some link needs the kernel to be asked (so that a waiting loop looks there each time).
  bool kernel_links() const noexcept { return kernel_links_.load(std::memory_order_relaxed); }
  /// When poll must be called at the latest while the process sleeps.
  TimePoint next_deadline() const;
  /// Say goodbye to all, and write what is still queued until `deadline`.
  void leave(TimePoint deadline);

 private:
  struct Peer {
    explicit Peer(const Sharing& sharing) : bundle(sharing), streams(sharing.streams) {}
    PeerAddress address;
    Bundle bundle;
    int streams = 1;      ///< that were asked for; 0: by the paths
    int dialing = 0;      ///< streams that are under way from here
    bool dialed = false;  ///< the first stream came from here: so do the others
    bool known = false, leaving = false, left = false, dead = false;
    bool gone() const { return left || dead; }
    Status status;
  };
  struct GroupState : Membership {
    std::string name;
    std::shared_ptr<Failure> failure;
    Inbox inbox{0};
  };

  /// A frame that came before its group was opened here.
  struct EarlyLeave {
    int from;
    FrameHeader header;
    std::vector<std::byte> told;
  };

  /// A message that is handed over; `memory` is this side's.
  struct Outgoing {
    std::uint64_t group;
    int peer;
    std::uint64_t record;  ///< in the segment
    Handover handover;
    transport::ConstPart data;
    transport::Place memory;
    std::shared_ptr<Completion> completion;
    bool asked = false;  ///< where the receiver's buffer is, if it can be reached
  };
  struct Incoming {
    int peer;
    FrameHeader header;
    Handover handover;
    Sink sink;
    transport::Place memory;
    std::uint64_t landing = 0;              ///< in the segment; 0: none
    TimePoint patience = TimePoint::max();  ///< the sender has stopped: until when to wait for the reason
  };
  /// Memory that a stopped peer may still write to.
  struct Unsafe {
    int peer;
    transport::Place place;
    std::vector<std::shared_ptr<const void>> memory;
  };

  // FrameHandler
  std::optional<Sink> on_frame(Stream& stream, const FrameHeader& header) override;
  void on_payload(Stream& stream, const FrameHeader& header, Sink& sink) override;

  Status send_to_self(GroupState& group, const FrameHeader& header, transport::ConstPart data);
  int peer_locked(const PeerId& id);
  transport::SharedView* shared_locked(int peer) const;
  void dial_locked(Peer& peer, TimePoint deadline);
  void share(Peer& peer, int streams);
  void enqueue(int peer, OutFrame frame);
  void on_event(transport::Event event);
  void on_up(int peer, transport::Event event);
  void on_dial_failed(int peer, const Status& status);
  void on_abort(int from, const AbortRecord& record);
  void tell_departure(const Membership& membership, FrameHeader header, const std::shared_ptr<UnderWay>& counted);
  void pass_on_departures(const Membership& membership, FrameHeader header);
  void forward_departure(const Membership& membership, const FrameHeader& header, std::span<const std::byte> told);
  void send_departure(int peer, const FrameHeader& header, std::span<const std::byte> told,
                      const std::shared_ptr<UnderWay>& counted);
  void on_leave(int from, const FrameHeader& header, std::span<const std::byte> told);
  void note_left(std::uint64_t id, GroupState& group, int rank);
  void member_gone(std::uint64_t id, GroupState& group, int rank);
  bool is_gone(const Membership& membership, int rank) const;
  bool has_left(std::uint64_t group, int peer);
  bool all_gone(const Membership& membership) const;
  void forget_closed();
  void look_after(Stream& stream);
  void on_stream_end(Stream& stream);
  void let_go(Stream& stream);
  std::optional<Sink> on_part(Stream& stream, const FrameHeader& header);
  void deliver(int peer, const FrameHeader& header, Sink& sink);
  void drain(int peer);
  void peer_left(int peer);
  void peer_died(int peer, const std::string& how, bool flood);
  void fail_group_locked(std::uint64_t id, GroupState& group, const Status& status, bool flood);
  void report_discord(std::uint64_t id, GroupState& group, const Discord& discord);
  void flood(const AbortRecord& record, std::span<const int> peers);
  std::string describe_peer(int peer) const;
  bool poll_locked(Look look);
  std::shared_ptr<Completion> hand_over(GroupState& group, int rank, const FrameHeader& header,
                                        transport::ConstPart data, const transport::Place& place,
                                        const std::shared_ptr<UnderWay>& counted);
  Result<std::uint64_t> new_record();
  std::uint64_t new_landing(std::byte* to, std::uint64_t bytes);
  Landing& landing_at(std::uint64_t offset) noexcept;
  bool copy(Handover& handover, int peer, int& error);
  HandoverRecord* record_of(Stream& stream, const FrameHeader& header);
  void take_over(Stream& stream, const FrameHeader& header, Sink sink);
  void wake(int peer);
  bool advance_handovers();
  bool advance(Outgoing& outgoing, bool& ended);
  bool advance(Incoming& incoming, bool& ended);
  void end(Incoming& incoming, const Status& status);
  bool finish(Handover& handover, int peer);
  bool settle(Handover& handover, int peer);
  void stop(Outgoing& outgoing, const Status& status, bool finish_it);
  void stop(Incoming& incoming, const Status& status, bool finish_it);
  void forget_handovers(std::uint64_t group, const Completion* only, const Status& status, bool finish_them);
  void warn_unsafe(int peer, const void* data, std::size_t bytes, transport::Place place);
  bool expects(const Stream& stream);
  bool look_at_sockets();
  bool look_at_all();
  GroupState* find(std::uint64_t group);
  std::vector<bool> gone_locked(const Membership& membership) const;
  /// `lacking`: without what it has left.
  Status gone_status(const GroupState& group, int rank, std::string_view lacking) const;
  Status recent_death_locked() const;

  PeerId self_;
  std::vector<std::unique_ptr<transport::Transport>> transports_;
  transport::Poller& poller_;
  const Clock& clock_;
  Logger log_;
  const std::shared_ptr<Completion> sent_ = std::make_shared<Completion>();
  mutable std::mutex mutex_;
  std::deque<Peer> peers_;                           ///< a deque: references stay when peers are added
  std::unordered_map<std::string, int> peer_index_;  ///< by to_string(PeerId)
  std::unordered_map<std::uint64_t, GroupState> groups_;
  std::pair<const std::uint64_t, GroupState>* found_ = nullptr;  ///< of groups_, the last one: messages come in rows
  std::unordered_map<std::uint64_t, Status> early_aborts_;       ///< of groups that are not open here yet
  std::unordered_map<std::uint64_t, std::vector<EarlyLeave>> early_leaves_;
  std::unordered_map<std::uint64_t, Membership> closed_groups_;  ///< until all members have left them
  std::vector<const GroupState*> awaiting_;  ///< while sockets are looked at: the groups that await something
  std::unordered_map<int, Stream*> by_fd_;
  std::vector<Stream*> memory_streams_;
  std::vector<int> ready_;
  std::vector<transport::Event> events_;
  std::vector<Stream*> ended_;                         ///< each once
  std::shared_ptr<transport::SharedSegment> segment_;  ///< what is lent
  Unsettled unsettled_;
  std::function<void(int, std::span<const std::byte>)> hear_wait_;
  std::list<Outgoing> outgoing_;  ///< being handed over
  std::list<Incoming> incoming_;
  FasterWay copies_;                                    ///< of messages that are handed over
  std::vector<std::pair<int, std::uint64_t>> records_;  ///< of what was handed over to a peer, until it has left them
  std::vector<std::uint64_t> landings_;                 ///< that are free
  std::vector<Unsafe> unsafe_;
  Sharing sharing_;  ///< of peers that are yet to come
  std::atomic<bool> kernel_links_{false};
  int connecting_ = 0;
  std::uint32_t quick_looks_ = 0;  ///< since the last look at everything
  bool draining_ = false;
  Status death_;  ///< the first
  TimePoint death_at_{};
  Deferred deferred_;
};

}  // namespace unisono::engine
