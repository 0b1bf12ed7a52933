/// Waiting for several operations in flight, and giving one up.

#include <algorithm>

#include "group/group_impl.h"

namespace unisono {

bool Work::cancel() const {
  if (impl_ == nullptr || impl_->completion->done()) return false;
  impl_->group->check_process();
  return impl_->what.message && impl_->group->withdraw(impl_->completion, impl_->what);
}

void wait_all(std::span<const Work> works) { wait_all(works, Duration::max()); }

void wait_all(std::span<const Work> works, Duration timeout) {
  const TimePoint until = saturating_add(std::chrono::steady_clock::now(), timeout);
  std::exception_ptr first;
  for (const Work& work : works) {
    const Duration left = until == TimePoint::max()
                              ? Duration::max()
                              : std::max<Duration>(until - std::chrono::steady_clock::now(), Duration{0});
    try {
      work.wait(left);
    } catch (...) {
      if (!work.done()) throw;  // the time is over
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

std::size_t wait_any(std::span<const Work> works) { return *wait_any(works, Duration::max()); }

std::optional<std::size_t> wait_any(std::span<const Work> works, Duration timeout) {
  if (works.empty()) throw InvalidArgument("wait_any: an empty list; there is nothing to wait for");
  const auto first_done = [&] { return std::ranges::find_if(works, [](const Work& work) { return work.done(); }); };
  const auto index_of = [&](auto found) { return static_cast<std::size_t>(found - works.begin()); };
  auto found = first_done();
  if (found != works.end()) return index_of(found);
  // All of a process share its progress; of ranks that are threads, each group has its own thread.
  detail::GroupImpl& group = *works.front().impl_->group;
  const detail::ContextImpl& context = *group.parts().context;
  context.cycles->note_caller();
  const auto given_up_first =
      std::ranges::min_element(works, {}, [](const Work& work) { return work.impl_->deadline; });
  const TimePoint own = given_up_first->impl_->deadline;
  const TimePoint until = std::min(saturating_add(context.clock.now(), timeout), own);
  const auto any = [&] { return (found = first_done()) != works.end(); };
  if (context.progress->wait(&group, until, nullptr, any) == group::Progress::Outcome::done) return index_of(found);
  if (own > until) return std::nullopt;
  // A message that nobody sends or takes: it is given up, and is done.
  try {
    given_up_first->wait();
  } catch (const Error&) {  // the caller's wait() throws it
  }
  return index_of(given_up_first);
}

bool test_all(std::span<const Work> works) noexcept {
  // Each is asked, so that each is looked after.
  return std::ranges::count_if(works, [](const Work& work) { return !work.done(); }) == 0;
}

}  // namespace unisono
