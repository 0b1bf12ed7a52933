/// init(): where the ranks meet, and the world that they make there.

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/status.h"
#include "group/context_impl.h"
#include "group/join_report.h"
#include "group/lingering.h"
#include "rendezvous/answer_by.h"
#include "rendezvous/claim.h"
#include "unisono/group.hpp"

namespace unisono {

namespace {

constexpr const char* kWorld = "world";
constexpr Duration kTellWithin = std::chrono::seconds(2);  // others that there is no use in waiting

/// The context, or why there is none; the others hear that, too.
Context make_context(Config& config, const rendezvous::OpenedStore& place, group::JoinReport& report) {
  try {
    report.leave_last_words();
    throw_status(detail::check_settings(config));
    if (place.of_one_user && config.secret.empty())
      config.secret = value_or_throw(rendezvous::secret_of_one_user(*place.store));
    return Context(config);
  } catch (...) {
    report.publish(status_from_current_exception());
    throw;
  }
}

Group join_world(Config config, detail::Lingering& late) {
  const Logger log = Logger().with_prefix(fmt::format("rank {}", config.rank));
  const rendezvous::HostIdentity here = value_or_throw(rendezvous::this_host());
  late.stop();
  // Whoever cannot come does not wait long for the place where the others are to hear that.
  const Status wrong = detail::check_settings(config);
  if (!wrong.ok()) config.init_timeout = std::min(config.init_timeout, kTellWithin);
  const auto place = rendezvous::meet(config, log);
  if (!place) throw_status(wrong.ok() ? place.status() : wrong);
  const auto asked =
      rendezvous::in_time(place->store, saturating_add(std::chrono::steady_clock::now(), config.init_timeout));
  group::JoinReport report(*asked, kWorld, config.rank, config.size, here.host, here.pid);
  try {
    const Context context = make_context(config, *place, report);
    return context.create_group(place->store, config.rank, config.size, kWorld);
  } catch (...) {
    if (config.rank == 0 && place->rank_0_serves) late.keep(place->store, kWorld, config.size, here.host, here.pid);
    throw;
  }
}

}  // namespace

Group init(Config config) {
  Latecomers latecomers;
  return init(std::move(config), latecomers);
}

Group init(Config config, Latecomers& latecomers) {
  if (config.size < 1) throw InvalidArgument(fmt::format("a world of {} ranks: at least one is needed", config.size));
  if (config.rank < 0 || config.rank >= config.size)
    throw InvalidArgument(
        fmt::format("rank {} of a world of {}: it must be from 0 to {}", config.rank, config.size, config.size - 1));
  if (config.size == 1) return Context(config).create_group(make_memory_store(), 0, 1, kWorld);
  return join_world(std::move(config), *latecomers.impl_);
}

}  // namespace unisono
