#pragma once
/// Frames over one link: a queue of frames to write, and a parser of the bytes that come.

#include <array>
#include <atomic>
#include <deque>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "engine/buffer.h"
#include "engine/completion.h"
#include "engine/fold.h"
#include "engine/frame.h"
#include "engine/part_list.h"
#include "transport/transport.h"

namespace unisono::engine {

/// Marks a step of an operation as done (Operation's state of a step).
using StepFlag = std::atomic<std::uint8_t>;
inline constexpr std::uint8_t kStepDone = 2;

/// What the head and the parts of a frame that is cut have in common.
struct Cut {
  std::size_t left = 0;  ///< of them, so many are not written yet
  bool begun = false;    ///< something is written: the peer waits for all the rest
  StepFlag* flag = nullptr;
  std::shared_ptr<Completion> completion;
};

/// A frame to be written. Its payload is the caller's memory until `flag` or `completion` says otherwise, or is owned.
struct OutFrame {
  FrameHeader header;
  std::vector<transport::ConstPart> parts;
  std::vector<std::byte> owned;  ///< then parts point into it
  StepFlag* flag = nullptr;
  std::shared_ptr<Completion> completion;
  std::shared_ptr<Cut> cut;  ///< of a head or a part, which have no flag or completion of their own
  std::size_t written = 0;   ///< of header and payload

  std::size_t size() const noexcept { return bytes_of(header) + static_cast<std::size_t>(header.following()); }
  /// All of it is written.
  void finish(Deferred& deferred);
  /// Take the caller's memory away from a frame that the peer has the beginning of, and must get whole: what is sent of it is a copy.
  void own();
};

/// Whether a frame that is not written to its end, of this group (and, when `only` is given, of the message that it stands for), is to be dropped. Who
/// waits for it is told `status`. One that the peer has the beginning of stays, with a copy of the caller's memory.
bool drop(OutFrame& frame, std::uint64_t group, const Completion* only, const Status& status, Deferred& deferred);

/// drop() for all frames of a list.
template <class Frames>
void drop_from(Frames& frames, std::uint64_t group, const Completion* only, const Status& status, Deferred& deferred) {
  for (auto it = frames.begin(); it != frames.end();)
    it = drop(*it, group, only, status, deferred) ? frames.erase(it) : std::next(it);
}

/// Drops all frames of a list, whatever they belong to; who waits for one is told `status`.
template <class Frames>
void abandon_all(Frames& frames, const Status& status, Deferred& deferred) {
  for (const OutFrame& frame : frames)
    if (const auto& waiter = frame.cut ? frame.cut->completion : frame.completion)
      deferred.add(waiter->complete(status));
  frames.clear();
}

struct Parcel;

/// Where the payload of an incoming frame goes. Bytes beyond the parts are dropped.
struct Sink {
  PartList parts;
  std::shared_ptr<const Fold> fold;        ///< instead of parts: what the payload is reduced with as it comes
  StepFlag* flag = nullptr;                ///< set when all is there
  std::shared_ptr<Parcel> parcel;          ///< kept for a receive that is not posted yet
  std::shared_ptr<Completion> completion;  ///< point to point
};

class Stream;

/// What a stream's owner does with frames. Called inside Stream::read.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  /// Where this frame's payload goes; nothing: not now, ask again at the next read.
  virtual std::optional<Sink> on_frame(Stream& stream, const FrameHeader& header) = 0;
  /// All of the payload is in the sink.
  virtual void on_payload(Stream& stream, const FrameHeader& header, Sink& sink) = 0;
};

/// Thread-safety: under the messenger's lock.
class Stream {
 public:
  enum class State : std::uint8_t { open, closed, failed };

  Stream(std::unique_ptr<transport::Link> link, int peer) : link_(std::move(link)), peer_(peer) {}

  int peer() const noexcept { return peer_; }
  transport::Link& link() noexcept { return *link_; }
  State state() const noexcept { return state_; }
  int error() const noexcept { return error_; }
  bool idle() const noexcept { return queue_.empty() || !writable_; }
  /// All that was to be written is written, and more would be taken.
  bool has_room() const noexcept { return queue_.empty() && writable_ && !said_last_; }

  void enqueue(OutFrame frame) { queue_.push_back(std::move(frame)); }
  /// When nothing is queued: write as much of a frame as can be written now; how many bytes of it that was. The rest, if any, is to be queued.
  std::size_t write_now(const FrameHeader& header, transport::ConstPart payload);
  /// Nothing else will be written here; says so to the peer, once.
  void say_last();
  bool said_last() const noexcept { return said_last_; }
  /// The peer has said so: the end of this stream is no failure.
  void hear_last() noexcept { heard_last_ = true; }
  bool heard_last() const noexcept { return heard_last_; }
  /// What came makes no sense: the stream has failed.
  void reject() noexcept;
  /// Nothing but parts has come here so far: whether there is more is to be seen from the frames that they are of.
  bool only_parts() const noexcept { return came_parts_ && !came_others_; }
  /// Write what can be written; whether anything was.
  bool flush(Deferred& deferred);
  /// Read what is there, up to a few hundred KiB, so that what came is used while it is in the caches; whether anything was.
  bool read(FrameHandler& handler);
  enum class Found : std::uint8_t { nothing_yet, something_else, a_part, all };
  /// Whether the frame that comes next, in up to `looks` looks, is `wanted`, to the last bit of its header: then its payload is put to `into`, which has
  /// its length. Of a part of it the rest is put there by read(), which then sets `flag`, or by the same question once more. Whatever else comes is left for read().
  Found collect(const FrameHeader& wanted, transport::MutablePart into, StepFlag* flag, int looks);
  enum class Brief : std::uint8_t { here, nothing_yet, something_else };
  /// Whether what comes next is a brief message of `group` with `tag`, in up to `looks` looks. Its payload lies there until drop_brief(), and is not in what read() finds after that.
  Brief find_brief(std::uint64_t group, std::uint64_t tag, int looks, transport::ConstPart& payload) noexcept;
  void drop_brief() noexcept { link_->drop_front(); }
  /// Whether the header of a frame has come, and not all of the frame.
  bool within_frame() const noexcept { return have_header_; }
  /// Whether the frame in front can be left where it is for a moment. After so many questions it is time to take it: what is behind
  /// it may be what everybody waits for.
  bool patient() const noexcept { return asked_ < kPatience; }
  /// Whether read() has something to do although the kernel may have nothing new: frames that were read ahead, or one whose
  /// handler said "not now".
  bool holds_input() const noexcept {
    return have_header_ ? !sink_.has_value() : buffer_end_ - buffer_begin_ >= header_bytes();
  }
  /// Let go of all memory of this group's frames: unsent frames are dropped, a half-sent one is copied, a half-read one
  /// loses its sink. Point-to-point frames with another completion than `only` (when given) are left alone.
  void forget(std::uint64_t group, const Completion* only, const Status& status, Deferred& deferred);

  /// Nothing more is written here.
  void abandon(const Status& status, Deferred& deferred) { abandon_all(queue_, status, deferred); }

 private:
  static constexpr std::uint32_t kPatience = 40;

  /// Of the header in front, as far as it can be told yet.
  std::size_t header_bytes() const noexcept;
  /// More of what comes next to the bytes that were read ahead; how many. `limit`: how many there are to be at most.
  std::size_t read_ahead(std::size_t limit);
  Found find_header(const FrameHeader& wanted, std::size_t length, int& looks);
  Found collect_rest(int looks);
  bool read_header(bool& moved);
  void begin_frame(std::size_t bytes) noexcept;
  bool read_payload(FrameHandler& handler, bool& moved);
  void pass(std::size_t bytes);
  void expect_piece();
  void take_read_ahead(bool& moved);
  std::size_t take_payload();
  std::size_t take(std::span<const transport::MutablePart> parts);
  bool note_write(const transport::Io& io) noexcept;
  void note(const transport::Io& io);

  std::unique_ptr<transport::Link> link_;
  int peer_;
  State state_ = State::open;
  int error_ = 0;
  bool writable_ = true;
  bool said_last_ = false, heard_last_ = false;
  std::deque<OutFrame> queue_;

  // Incoming: bytes read ahead (of descriptors to get a header and a small payload with one call, of memory a short message), then the frame in progress.
  std::array<std::byte, 4096> buffer_;
  std::size_t buffer_begin_ = 0, buffer_end_ = 0;
  FrameHeader header_;
  bool have_header_ = false;
  bool came_parts_ = false, came_others_ = false;
  bool drained_ = false;     ///< this turn the kernel gave less than was asked for: it has no more
  std::uint32_t asked_ = 0;  ///< how often the handler has said "not now" to the frame in front
  std::optional<Sink> sink_;
  std::size_t sink_part_ = 0, sink_offset_ = 0;
  std::uint64_t remaining_ = 0;
  Buffer piece_;            ///< of a payload that is reduced as it comes
  std::size_t folded_ = 0;  ///< so much of that payload is done
};

}  // namespace unisono::engine
