#pragma once
/// Frames over one link: a queue of frames to write, and a parser of the bytes that come.

#include <array>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "engine/completion.h"
#include "engine/frame.h"
#include "transport/transport.h"

namespace unisono::engine {

/// Marks a step of an operation as done (Operation's state of a step).
using StepFlag = std::atomic<std::uint8_t>;
inline constexpr std::uint8_t kStepDone = 2;

/// A frame to be written. Its payload is the caller's memory until `flag` or `completion` says otherwise, or is owned.
struct OutFrame {
  FrameHeader header;
  std::vector<transport::ConstPart> parts;
  std::vector<std::byte> owned;  ///< then parts point into it
  StepFlag* flag = nullptr;
  std::shared_ptr<Completion> completion;
  std::size_t written = 0;  ///< of header and payload
};

struct Parcel;

/// Where the payload of an incoming frame goes. Bytes beyond the parts are dropped.
struct Sink {
  std::vector<transport::MutablePart> parts;
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

  void enqueue(OutFrame frame) { queue_.push_back(std::move(frame)); }
  /// Write what can be written; whether anything was.
  bool flush(Deferred& deferred);
  /// Read what is there, up to a few hundred KiB, so that what came is used while it is in the caches; whether anything was.
  bool read(FrameHandler& handler);
  /// Whether the frame in front can be left where it is for a moment. After so many questions it is time to take it: what is behind
  /// it may be what everybody waits for.
  bool patient() const noexcept { return asked_ < kPatience; }
  /// Whether read() has something to do although the kernel may have nothing new: frames that were read ahead, or one whose
  /// handler said "not now".
  bool holds_input() const noexcept {
    return have_header_ ? !sink_.has_value() : buffer_end_ - buffer_begin_ >= sizeof(FrameHeader);
  }
  /// Let go of all memory of this group's frames: unsent frames are dropped, a half-sent one is copied, a half-read one
  /// loses its sink. Point-to-point frames with another completion than `only` (when given) are left alone.
  void forget(std::uint64_t group, const Completion* only, const Status& status, Deferred& deferred);

 private:
  static constexpr std::uint32_t kPatience = 40;

  bool read_header(bool& moved);
  bool read_payload(FrameHandler& handler, bool& moved);
  std::size_t take(std::span<const transport::MutablePart> parts);
  void note(const transport::Io& io);

  std::unique_ptr<transport::Link> link_;
  int peer_;
  State state_ = State::open;
  int error_ = 0;
  bool writable_ = true;
  std::deque<OutFrame> queue_;

  // Incoming: bytes read ahead (descriptors only, to get a header and a small payload with one call), then the frame in progress.
  std::array<std::byte, 4096> buffer_;
  std::size_t buffer_begin_ = 0, buffer_end_ = 0;
  FrameHeader header_;
  bool have_header_ = false;
  bool drained_ = false;     ///< this turn the kernel gave less than was asked for: it has no more
  std::uint32_t asked_ = 0;  ///< how often the handler has said "not now" to the frame in front
  std::optional<Sink> sink_;
  std::size_t sink_part_ = 0, sink_offset_ = 0;
  std::uint64_t remaining_ = 0;
};

}  // namespace unisono::engine
