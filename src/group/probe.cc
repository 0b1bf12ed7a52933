/// What waits to be received.

#include <fmt/format.h>

#include "group/group_impl.h"

namespace unisono::detail {

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

}  // namespace unisono::detail
