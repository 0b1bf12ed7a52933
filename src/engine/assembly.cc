#include "engine/assembly.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/section.h"

namespace unisono::engine {

bool Assembly::begin(const FrameHeader& head, Sink sink) {
  if (head.place != next_ || head.length == 0) return false;
  open_.emplace(next_++, Open{{head, std::move(sink)}, head.length});
  return true;
}

Assembly::Found Assembly::find(const FrameHeader& part, Sink& into) const {
  const auto found = open_.find(part.sequence);
  if (found == open_.end()) return part.sequence < next_ ? Found::never : Found::later;
  const auto& [frame, missing] = found->second;
  // In this order nothing overflows: missing is at most the frame's length.
  if (part.length > missing || part.place > frame.header.length - part.length) return Found::never;
  // Parts of a sum begin and end with its elements.
  const bool ends_well = part.length % kPartAlignment == 0 || part.place + part.length == frame.header.length;
  if (frame.sink.fold && (part.place % kPartAlignment != 0 || !ends_well)) return Found::never;
  into.parts = section(std::span<const transport::MutablePart>(frame.sink.parts), part.place, part.length);
  if (frame.sink.fold) into.fold = std::make_shared<const Fold>(frame.sink.fold->from(part.place));
  into.completion = frame.sink.completion;  // so that forgetting a message finds its parts
  into.parcel = frame.sink.parcel;          // whose memory it is
  return Found::yes;
}

std::optional<Assembly::Whole> Assembly::arrived(const FrameHeader& part) {
  const auto found = open_.find(part.sequence);
  if (found == open_.end()) return std::nullopt;
  found->second.missing -= part.length;
  if (found->second.missing > 0) return std::nullopt;
  Whole whole = std::move(found->second.frame);
  open_.erase(found);
  return whole;
}

bool Assembly::holds(std::uint64_t group) const noexcept {
  return std::any_of(open_.begin(), open_.end(),
                     [group](const auto& open) { return open.second.frame.header.group == group; });
}

void Assembly::forget(std::uint64_t group, const Completion* only, const Status& status, Deferred& deferred) {
  for (auto& [number, open] : open_) {
    Sink& sink = open.frame.sink;
    if (open.frame.header.group != group || (only != nullptr && sink.completion.get() != only)) continue;
    if (sink.completion) deferred.add(sink.completion->complete(status));
    sink = Sink{};
  }
}

}  // namespace unisono::engine
