/// Point to point.

#include <fmt/format.h>

#include "engine/handover.h"
#include "group/group_impl.h"

namespace unisono::detail {

static_assert(kAnyTag == engine::kAnyTag && kLeastTag == engine::kLeastTag);

/// Memory that large messages inside a host come back to is shared by itself, as that of collectives is (adopt_buffers), and until the message has ended
/// nobody else may write to it.
void GroupImpl::adopt_message(std::span<const std::byte> data, int peer, Duration timeout) const {
  const bool reached = peer == kAnyRank ? one_host_ : parts_.members[peer].shares_memory;
  if (reached && timeout >= std::chrono::seconds(10))
    parts_.context->adopter->begin(*parts_.context, data.data(), data.size());
}

void refuse_tag(std::int64_t tag, bool sends) {
  throw InvalidArgument(fmt::format("{} with tag {}: tags are at least {}{}", sends ? "send" : "recv", tag, kLeastTag,
                                    sends ? ", also where a recv is for any tag. Nothing was sent" : ""));
}

std::shared_ptr<engine::Completion> GroupImpl::send(std::span<const std::byte> data, int dst, std::int64_t tag,
                                                    Duration timeout,
                                                    const std::shared_ptr<engine::UnderWay>& counted) {
  check_usable();
  if (dst == kNullRank) return nullptr;
  if (dst < 0 || dst >= size())
    throw InvalidArgument(fmt::format("send to rank {} on group \"{}\": it has ranks 0 to {}. Nothing was sent", dst,
                                      parts_.name, size() - 1));
  if (data.data() == nullptr && !data.empty()) throw InvalidArgument("send: data is null. Nothing was sent");
  if (checks_ != nullptr) [[unlikely]] {
    auto by = check_message(data, {"send", true, dst, tag, data.size()}, false);
    const std::span copy(by->copy_of(data.data()), data.size());
    return checked(send_valid(copy, dst, tag, timeout, counted), std::move(by));
  }
  return send_valid(data, dst, tag, timeout, counted);
}

std::shared_ptr<engine::Completion> GroupImpl::send_valid(std::span<const std::byte> data, int dst, std::int64_t tag,
                                                          Duration timeout,
                                                          const std::shared_ptr<engine::UnderWay>& counted) {
  engine::Messenger& messenger = *parts_.context->messenger;
  const auto& segment = parts_.context->segment;
  if (data.size() < engine::kHandedOver || segment == nullptr || dst == rank())
    return messenger.send_message(parts_.id, dst, tag, data, nullptr, counted);
  adopt_message(data, dst, timeout);
  const transport::Place place = segment->find(data.data(), data.size());
  // Of private memory, too, if the receiver can read it.
  const bool handed_over = place.offset != 0 || (data.size() >= engine::kHandedOverPrivate && parts_.peer_memory);
  return messenger.send_message(parts_.id, dst, tag, data, handed_over ? &place : nullptr, counted);
}

void GroupImpl::check_source(std::string_view verb, int src) {
  check_usable();
  if (src < kNullRank || src >= size())
    throw InvalidArgument(fmt::format("{} from rank {} on group \"{}\": it has ranks 0 to {}, or -1 for any", verb, src,
                                      parts_.name, size() - 1));
}

void GroupImpl::check_receive(std::span<const std::byte> data, int src) {
  check_source("recv", src);
  if (data.data() == nullptr && !data.empty()) throw InvalidArgument("recv: data is null");
}

void GroupImpl::refuse_own_message(bool sends, std::int64_t tag) {
  check_usable();
  const engine::Messenger& messenger = *parts_.context->messenger;
  if (sends ? messenger.has_receive(parts_.id, rank(), tag)
            : messenger.first_message(parts_.id, rank(), tag).has_value())
    return;
  throw InvalidArgument(
      sends
          ? fmt::format("send from rank {} to itself on group \"{}\", tag {}: no receive for it was posted, so a rank "
                        "that waits for it would wait for ever. Post it first with irecv, or send with isend. "
                        "Nothing was sent",
                        rank(), parts_.name, tag)
          : fmt::format("recv on rank {} from itself on group \"{}\", {}: it has sent nothing to itself that it has "
                        "not received, so this would wait for ever. Send it first with isend, or receive with irecv",
                        rank(), parts_.name, words_of_tag(tag)));
}

std::shared_ptr<engine::Completion> GroupImpl::receive(std::span<std::byte> data, int src, std::int64_t tag,
                                                       Duration timeout,
                                                       const std::shared_ptr<engine::UnderWay>& counted) {
  check_receive(data, src);
  if (src == kNullRank) return received_nothing();
  if (checks_ != nullptr) [[unlikely]] {
    auto by = check_message(data, {"recv", true, src, tag, data.size()}, true);
    const std::span copy(by->copy_of(data.data()), data.size());
    return checked(receive_valid(copy, src, tag, timeout, counted), std::move(by));
  }
  return receive_valid(data, src, tag, timeout, counted);
}

std::shared_ptr<engine::Completion> GroupImpl::receive_valid(std::span<std::byte> data, int src, std::int64_t tag,
                                                             Duration timeout,
                                                             const std::shared_ptr<engine::UnderWay>& counted) {
  if (data.size() >= engine::kHandedOver && src != rank() && parts_.context->segment != nullptr)
    adopt_message(data, src, timeout);
  return parts_.context->messenger->receive_message(parts_.id, src, tag, data, counted);
}

std::shared_ptr<engine::Completion> GroupImpl::received_nothing() {
  auto done = std::make_shared<engine::Completion>();
  (void)done->complete({}, {.source = kNullRank, .tag = kAnyTag, .bytes = 0});
  return done;
}

bool GroupImpl::is_soon_over(std::size_t bytes, int src) const {
  if (bytes >= engine::kHandedOver || src >= size() || src == rank() || src == kNullRank) return false;
  return src < 0 ? one_host_ : parts_.members[src].shares_memory;
}

std::optional<engine::Arrival> GroupImpl::receive_now(std::span<std::byte> data, int src, std::int64_t tag) {
  constexpr int kLooks = 16;  // the messenger's lock is held so long
  if (data.size() > engine::BriefHeader::kMost || checks_ != nullptr) return std::nullopt;
  check_receive(data, src);
  if (src < 0 || src == rank() || !parts_.members[src].shares_memory) return std::nullopt;
  engine::Messenger& messenger = *parts_.context->messenger;
  engine::Arrival arrival;
  auto found = engine::Stream::Brief::nothing_yet;
  for (int round = parts_.context->progress->short_wait(); round > 0 && found == engine::Stream::Brief::nothing_yet;
       round--)
    found = messenger.receive_now(parts_.id, src, tag, data, kLooks, arrival);
  return found == engine::Stream::Brief::here ? std::optional(arrival) : std::nullopt;
}

}  // namespace unisono::detail
