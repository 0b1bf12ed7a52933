#include "engine/inbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace unisono::engine {

using transport::MutablePart;

namespace {
/// Beyond this, frames stay with the transport, whose buffers then fill and hold the sender back.
constexpr std::uint64_t kKeptLimit = std::uint64_t{1} << 30;
constexpr std::size_t kPastOperations = 64;
/// From this length a frame is worth waiting for: more of it is in the transport than a stream reads ahead.
constexpr std::uint64_t kWorthWaiting = 16 << 10;
/// Buffers of kept frames that are kept in turn: so many, none larger.
constexpr std::size_t kSpareBuffers = 8, kLargestSpare = 512 << 10;
}  // namespace

Inbox::Key Inbox::key(int rank, const FrameHeader& h) noexcept {
  // 20 bits each for rank and slice, 24 for the ordinal (its channel in the upper ones).
  return static_cast<Key>(rank) << kRankAt | static_cast<Key>(h.slice & 0xfffff) << 24 | (h.ordinal & 0xffffff);
}

bool Inbox::awaits(int rank) const noexcept {
  return std::any_of(posts_.begin(), posts_.end(),
                     [rank](const auto& post) { return post.first >> kRankAt == static_cast<Key>(rank); }) ||
         std::any_of(receives_.begin(), receives_.end(),
                     [rank](const Receive& r) { return r.source < 0 || r.source == rank; });
}

std::optional<Discord> Inbox::begin(std::uint64_t sequence, const Signature& signature) {
  active_ = true;
  sequence_ = sequence;
  signature_ = signature;
  for (auto it = early_.lower_bound({sequence, 0}); it != early_.end() && it->first.first == sequence; ++it)
    if (auto discord = check(it->second->rank, it->second->header)) return discord;
  for (const auto& [rank, header] : probes_)
    if (auto discord = check(rank, header)) return discord;
  return std::nullopt;
}

std::optional<Discord> Inbox::on_probe(int rank, const FrameHeader& header) {
  probes_[rank] = header;
  note_begun(rank, header.sequence);
  return check(rank, header);
}

void Inbox::note_begun(int rank, std::uint64_t sequence) {
  std::uint64_t& known = begun_[static_cast<std::size_t>(rank)];
  news_ |= sequence > known;
  known = std::max(known, sequence);
}

void Inbox::merge_begun(std::span<const std::byte> payload) {
  if (payload.size() != begun_.size() * sizeof(std::uint64_t)) return;
  for (int rank = 0; rank < size_; rank++) {
    std::uint64_t sequence = 0;
    std::memcpy(&sequence, payload.data() + static_cast<std::size_t>(rank) * sizeof sequence, sizeof sequence);
    note_begun(rank, sequence);
  }
}

HowFar Inbox::how_far() const {
  HowFar far{begun_, std::vector<std::uint64_t>(begun_.size())};
  for (const auto& [rank, header] : probes_) far.waits_in[static_cast<std::size_t>(rank)] = header.sequence;
  return far;
}

std::optional<Signature> Inbox::past(std::uint64_t sequence) const {
  const auto found = std::ranges::find(past_, sequence, &Past::sequence);
  return found == past_.end() ? std::nullopt : std::optional(found->signature);
}

void Inbox::end(std::uint64_t sequence) {
  active_ = false;
  posts_.clear();
  past_.push_back({sequence, signature_});
  if (past_.size() > kPastOperations) past_.pop_front();
}

/// Whether the frame belongs to something else than what was called here under its number.
std::optional<Discord> Inbox::check(int rank, const FrameHeader& h) const {
  if (h.sequence == sequence_ && active_) {
    if (h.signature == signature_) return std::nullopt;
    return Discord{rank, h.sequence, signature_, h.signature};
  }
  for (const Past& p : past_)
    if (p.sequence == h.sequence && p.signature != h.signature)
      return Discord{rank, h.sequence, p.signature, h.signature};
  return std::nullopt;
}

std::optional<Discord> Inbox::post(int rank, const FrameHeader& header, Sink&& into) {
  const auto early = early_.find({header.sequence, key(rank, header)});
  if (early == early_.end()) {
    posts_[key(rank, header)] = {std::move(into), header.length};
    return std::nullopt;
  }
  const std::shared_ptr<Parcel> parcel = early->second;
  if (parcel->header.length != header.length)
    return Discord{rank, header.sequence, header.signature, parcel->header.signature};
  if (!parcel->complete) {
    parcel->claim = std::move(into);
    return std::nullopt;
  }
  Deferred none;
  deliver(*parcel, into, none);
  early_.erase(early);
  return std::nullopt;
}

void Inbox::post_message(int source, std::int64_t tag, MutablePart buffer, std::shared_ptr<Completion> completion,
                         Deferred& deferred) {
  for (auto it = messages_.begin(); it != messages_.end(); ++it) {
    Parcel& parcel = **it;
    if (!parcel.would_go_to(source, tag)) continue;
    Sink into;
    into.parts = {buffer};
    into.completion = std::move(completion);
    if (!parcel.complete) {
      parcel.claim = std::move(into);
      return;
    }
    deliver(parcel, into, deferred);
    messages_.erase(it);
    return;
  }
  receives_.push_back({source, tag, buffer, std::move(completion)});
}

std::optional<Arrival> Inbox::first_message(int source, std::int64_t tag) const {
  const auto found =
      std::ranges::find_if(messages_, [&](const auto& parcel) { return parcel->would_go_to(source, tag); });
  if (found == messages_.end()) return std::nullopt;
  const FrameHeader& header = (*found)->header;
  return Arrival{(*found)->rank, static_cast<std::int64_t>(header.sequence), static_cast<std::int64_t>(header.length)};
}

bool Inbox::has_receive(int source, std::int64_t tag) const {
  return std::ranges::any_of(receives_, [&](const Receive& posted) { return posted.takes(source, tag); });
}

Buffer Inbox::buffer(std::size_t bytes) {
  for (Buffer& spare : spare_) {
    if (spare.capacity() < bytes) continue;
    Buffer found = std::exchange(spare, std::move(spare_.back()));
    spare_.pop_back();
    found.resize(bytes);
    return found;
  }
  return Buffer(bytes);
}

void Inbox::recycle(Buffer buffer) {
  if (buffer.capacity() == 0 || buffer.capacity() > kLargestSpare) return;
  if (spare_.size() == kSpareBuffers) spare_.erase(spare_.begin());
  spare_.push_back(std::move(buffer));
}

std::optional<Sink> Inbox::keep(int rank, const FrameHeader& header, bool patient) {
  if (patient && header.length >= kWorthWaiting) return std::nullopt;
  // One frame is always kept, however large: otherwise it could never be received.
  if (kept_bytes_ > 0 && kept_bytes_ + header.length > kKeptLimit) return std::nullopt;
  auto parcel = std::make_shared<Parcel>();
  parcel->header = header;
  parcel->rank = rank;
  parcel->data = buffer(header.length);
  kept_bytes_ += header.length;
  Sink sink;
  sink.parts = {parcel->data.span()};
  sink.parcel = parcel;
  if (header.kind == FrameKind::message)
    messages_.push_back(parcel);
  else
    early_[{header.sequence, key(rank, header)}] = parcel;
  return sink;
}

std::optional<Sink> Inbox::on_frame(int rank, const FrameHeader& header, std::optional<Discord>& discord,
                                    bool patient) {
  if (header.kind == FrameKind::message) {
    for (auto it = receives_.begin(); it != receives_.end(); ++it) {
      if (!it->takes(rank, static_cast<std::int64_t>(header.sequence))) continue;
      Sink sink;
      sink.parts = {it->buffer};
      sink.completion = std::move(it->completion);
      it == receives_.begin() ? receives_.pop_front() : void(receives_.erase(it));
      return sink;
    }
    return keep(rank, header, patient);
  }
  discord = check(rank, header);
  if (discord) return Sink{};
  note_begun(rank, header.sequence);
  if (active_ && header.sequence == sequence_) {
    const auto post = posts_.find(key(rank, header));
    if (post != posts_.end()) {
      if (post->second.length != header.length) {
        discord = Discord{rank, header.sequence, signature_, header.signature};
        return Sink{};
      }
      Sink sink = std::move(post->second.into);
      posts_.erase(post);
      return sink;
    }
  }
  return keep(rank, header, patient);
}

void Inbox::finish_message(const FrameHeader& header, int rank, std::size_t room,
                           const std::shared_ptr<Completion>& completion, Deferred& deferred) {
  const Arrival arrival{rank, static_cast<std::int64_t>(header.sequence), static_cast<std::int64_t>(header.length)};
  Status status;
  if (header.length > room)
    status = Status::invalid(
        fmt::format("a message of {} bytes from rank {} (tag {}) does not fit into the receive buffer of {} bytes; its "
                    "first {} bytes "
                    "were stored, the rest is lost: receive with a buffer at least as large as what is sent",
                    header.length, rank, header.sequence, room, room));
  deferred.add(completion->complete(std::move(status), arrival));
}

void Inbox::deliver(Parcel& parcel, Sink& into, Deferred& deferred) {
  std::size_t at = 0, room = 0;
  if (into.fold) into.fold->add(0, parcel.data.span());
  for (const MutablePart& p : into.parts) {
    const std::size_t take = std::min(p.size(), parcel.data.size() - at);
    if (take > 0) std::memcpy(p.data(), parcel.data.data() + at, take);
    at += take;
    room += p.size();
  }
  kept_bytes_ -= parcel.header.length;
  recycle(std::move(parcel.data));
  if (into.flag != nullptr) into.flag->store(kStepDone, std::memory_order_release);
  if (into.completion) finish_message(parcel.header, parcel.rank, room, into.completion, deferred);
}

void Inbox::on_payload(int rank, const FrameHeader& header, Sink& sink, Deferred& deferred) {
  if (sink.parcel) {
    Parcel& parcel = *sink.parcel;
    parcel.complete = true;
    if (!parcel.claim) return;
    Sink into = std::move(*parcel.claim);
    deliver(parcel, into, deferred);
    if (header.kind == FrameKind::message)
      messages_.remove(sink.parcel);
    else
      early_.erase({header.sequence, key(rank, header)});
    return;
  }
  if (sink.flag != nullptr) sink.flag->store(kStepDone, std::memory_order_release);
  if (sink.completion) {
    std::size_t room = 0;
    for (const MutablePart& p : sink.parts) room += p.size();
    finish_message(header, rank, room, sink.completion, deferred);
  }
}

void Inbox::give_up(const std::shared_ptr<Parcel>& parcel, const Status& status, Deferred& deferred) {
  if (parcel->claim && parcel->claim->completion) deferred.add(parcel->claim->completion->complete(status));
  kept_bytes_ -= parcel->header.length;
  messages_.remove(parcel);
}

void Inbox::fail_messages(const std::vector<bool>& gone, int rank, const Status& status, Deferred& deferred) {
  const bool nobody_left = std::count(gone.begin(), gone.end(), false) <= 1;  // this rank itself
  for (auto it = receives_.begin(); it != receives_.end();) {
    if (it->source == rank || (it->source < 0 && nobody_left)) {
      deferred.add(it->completion->complete(status));
      it = receives_.erase(it);
    } else {
      ++it;
    }
  }
}

bool Inbox::is_posted(const Completion* receive) const noexcept {
  return std::ranges::any_of(receives_, [&](const Receive& posted) { return posted.completion.get() == receive; });
}

bool Inbox::withdraw(const Completion* receive, const Status& status, Deferred& deferred) {
  const auto found = std::find_if(receives_.begin(), receives_.end(),
                                  [&](const auto& posted) { return posted.completion.get() == receive; });
  if (found == receives_.end()) return false;
  deferred.add(found->completion->complete(status));
  receives_.erase(found);
  return true;
}

void Inbox::forget(const Completion* only, const Status& status, Deferred& deferred) {
  for (auto it = receives_.begin(); it != receives_.end();) {
    if (only == nullptr || it->completion.get() == only) {
      deferred.add(it->completion->complete(status));
      it = receives_.erase(it);
    } else {
      ++it;
    }
  }
  for (const auto& parcel : messages_)
    if (parcel->claim && (only == nullptr || parcel->claim->completion.get() == only)) {
      deferred.add(parcel->claim->completion->complete(status));
      parcel->claim = Sink{};  // still arriving: its bytes go nowhere
    }
  if (only != nullptr) return;
  posts_.clear();
  for (auto& [key, parcel] : early_) parcel->claim.reset();
}

}  // namespace unisono::engine
