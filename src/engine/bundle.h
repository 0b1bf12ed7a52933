#pragma once
/// The streams to one peer, used together. Small frames go over the first one, in their order. A large one is cut: its head goes over the first
/// stream, too, which keeps it in the order that messages are matched in; its parts go over whichever stream has room, and are put in
/// place by their offsets. So a path with less room carries fewer of them, and no part waits for another one.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/assembly.h"
#include "engine/stream.h"

namespace unisono::engine {

/// How frames are shared out.
struct Sharing {
  static constexpr int kMostStreams = 4;
  int streams = 1;                     ///< so many are used, where they are there; 0: one for each path to the peer
  std::uint64_t cut_from = 128 << 10;  ///< bytes of payload; what is shorter stays whole
  std::uint64_t least = 64 << 10, most = 256 << 10;  ///< bytes of a part, but for the last one
};

/// Thread-safety: under the messenger's lock.
class Bundle {
 public:
  explicit Bundle(const Sharing& sharing) : sharing_(sharing) { use(sharing.streams); }

  /// By age; the first one is where small frames go. None is ever taken out but by remove().
  std::span<const std::unique_ptr<Stream>> streams() const noexcept { return streams_; }
  bool empty() const noexcept { return streams_.empty(); }
  /// The only one, or nullptr.
  Stream* only() const noexcept { return streams_.size() == 1 ? streams_.front().get() : nullptr; }
  bool is_first(const Stream& stream) const noexcept { return !empty() && streams_.front().get() == &stream; }
  /// Frames that waited for a first one go on.
  void add(std::unique_ptr<Stream> stream, Deferred& deferred);
  /// Not the first one.
  void remove(const Stream& stream);

  /// From now on large frames use so many streams at most, counted by age.
  void use(int streams) noexcept { sharing_.streams = std::max(1, streams); }
  int used() const noexcept { return sharing_.streams; }
  /// How many can be written to.
  int open() const noexcept;

  /// Where nothing is queued before it, and it is not long: write as much of a message as can be written now; how many bytes of the frame that was. The
  /// rest, if any, is to be queued.
  std::size_t write_now(const FrameHeader& header, transport::ConstPart payload);
  /// Without a stream it waits for one. Writes at once what can be written.
  void enqueue(OutFrame frame, Deferred& deferred);
  bool waits() const noexcept { return !waiting_.empty(); }
  /// Write what can be written to a stream that may have room again; whether anything was.
  bool flush(Stream& stream, Deferred& deferred);
  /// How those ended that did, the most telling first: a connection that broke may be why the peer closed the others.
  std::string describe_ends() const;
  /// Nothing is left to be written, as far as anybody will take it.
  bool idle() const noexcept;
  /// Behind all that is queued now: goodbye. Nothing may be queued after it.
  void say_goodbye(Deferred& deferred);
  void forget(std::uint64_t group, const Completion* only, const Status& status, Deferred& deferred);

  /// The peer is gone: nothing more is written to it. Who waits for that is told `status`.
  void abandon(const Status& status, Deferred& deferred);

  /// Frames of the peer that come in parts.
  Assembly& incoming() noexcept { return incoming_; }

 private:
  void cut(OutFrame frame);
  Stream* next_with_room() noexcept;
  bool hand_out(Deferred& deferred);

  Sharing sharing_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<OutFrame> waiting_;  ///< for a first stream
  /// Parts for whichever stream has room. While there are any, every stream in use has something to write.
  std::deque<OutFrame> parts_;
  std::uint64_t next_number_ = 0;  ///< of the next frame that is cut
  std::size_t turn_ = 0;           ///< where to look first for a stream with room
  bool leaving_ = false;
  Assembly incoming_;
};

}  // namespace unisono::engine
