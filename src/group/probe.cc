/// What waits to be received, and receiving and sending at once.

#include <fmt/format.h>

#include "group/group_impl.h"

namespace unisono {

namespace detail {

std::optional<engine::Arrival> GroupImpl::iprobe(int src, std::int64_t tag) {
  check_source("probe", src);
  check_tag_to_receive(tag);
  if (src == kNullRank) return received_nothing()->arrival();
  parts_.context->progress->look();
  auto found = parts_.context->messenger->first_message(parts_.id, src, tag);
  if (!found && parts_.failure->failed()) throw_status(parts_.failure->status());
  return found;
}

engine::Arrival GroupImpl::probe(int src, std::int64_t tag, const Options& options) {
  check_source("probe", src);
  check_tag_to_receive(tag);
  if (src == kNullRank) return received_nothing()->arrival();
  if (is_own_message(src)) refuse_own_message(false, tag);
  std::optional<engine::Arrival> found;
  Status lost;
  std::vector<int> senders;
  for (int r = 0; r < size(); r++)
    if (r == src || (src == kAnyRank && r != rank())) senders.push_back(r);
  const engine::Messenger& messenger = *parts_.context->messenger;
  const auto ended = [&] {
    // In this order: what came before a sender left is found.
    lost = parts_.failure->failed() ? parts_.failure->status() : messenger.all_departed(parts_.id, senders);
    found = messenger.first_message(parts_.id, src, tag);
    return found.has_value() || !lost.ok();
  };
  const Duration timeout = options.timeout.value_or(default_timeout());
  const TimePoint began = parts_.context->clock.now();
  const auto outcome = parts_.context->progress->wait(this, saturating_add(began, timeout), options.interrupted, ended);
  if (found) return *found;
  const std::string what = fmt::format("probe for a message from {}, {}, group \"{}\"",
                                       src == kAnyRank ? "any rank" : names_of({src}), words_of_tag(tag), parts_.name);
  if (outcome == group::Progress::Outcome::interrupted)
    throw_status(Status::aborted(what + " was interrupted: nothing is lost, and the group can be used as before"));
  if (!lost.ok()) throw_status(annotate(lost, what, began));
  throw_status(annotate(Status::timeout(fmt::format("{} found none within {:.3f} s", what,
                                                    std::chrono::duration<double>(timeout).count()),
                                        src < 0 ? std::vector<int>{} : std::vector{src}),
                        what, began));
  return {};
}

}  // namespace detail

namespace {
detail::GroupImpl& need(const std::shared_ptr<detail::GroupImpl>& impl) {
  if (impl == nullptr) throw InvalidArgument("this Group is empty: this rank is not a member");
  return *impl;
}

Received received(const engine::Arrival& a) { return {a.source, a.tag, a.bytes}; }
}  // namespace

Received Group::probe(int src, std::int64_t tag, Options o) const { return received(need(impl_).probe(src, tag, o)); }

std::optional<Received> Group::iprobe(int src, std::int64_t tag) const {
  const auto found = need(impl_).iprobe(src, tag);
  return found ? std::optional(received(*found)) : std::nullopt;
}

Received Group::sendrecv(std::span<const std::byte> out, int dst, std::span<std::byte> in, int src,
                         std::int64_t send_tag, std::int64_t recv_tag, Options o) const {
  detail::GroupImpl& g = need(impl_);
  g.parts().context->cycles->note_caller();
  detail::check_tag_to_send(send_tag);
  detail::check_tag_to_receive(recv_tag);
  const Duration timeout = o.timeout.value_or(g.default_timeout());
  const auto arrives = g.receive(in, src, recv_tag, timeout);
  try {
    g.wait(g.send(out, dst, send_tag, timeout), timeout, {"send", true, dst, send_tag, out.size(), g.lasts(o)}, true,
           o.interrupted);
    g.wait(arrives, timeout, {"recv", true, src, recv_tag, in.size(), g.lasts(o)}, true, o.interrupted);
  } catch (...) {
    // The receive must not outlive the call: its memory is the caller's.
    g.parts().context->messenger->cancel(g.parts().id, arrives, Status::aborted("its sendrecv has failed"));
    throw;
  }
  return received(arrives->arrival());
}

Received Group::sendrecv_replace(std::span<std::byte> data, int dst, int src, std::int64_t send_tag,
                                 std::int64_t recv_tag, Options o) const {
  const std::vector<std::byte> out(data.begin(), data.end());
  return sendrecv(out, dst, data, src, send_tag, recv_tag, o);
}

}  // namespace unisono
