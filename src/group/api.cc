/// The public face: Group, Work, Context, init. Status becomes an exception here.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/status.h"
#include "group/group_impl.h"
#include "group/registration.h"

namespace unisono {

using detail::GroupImpl;
using detail::WorkImpl;

namespace {
GroupImpl& need(const std::shared_ptr<GroupImpl>& impl) {
  if (impl == nullptr)
    throw InvalidArgument(
        "this Group is empty: it was not made by init(), subgroup() or split(), or this rank is not a member");
  return *impl;
}

/// The same for whatever more than looks at it.
GroupImpl& use(const std::shared_ptr<GroupImpl>& impl) {
  GroupImpl& group = need(impl);
  group.check_process();
  return group;
}

/// The same for a call that sends, receives or waits. (Bindings make groups in a thread of their
/// own.)
GroupImpl& call_on(const std::shared_ptr<GroupImpl>& impl) {
  GroupImpl& group = need(impl);
  group.parts().context->cycles->note_caller();
  return group;
}

/// Calls `f`, and counts while that is still to come.
std::function<void()> counted(std::function<void()> f, const std::shared_ptr<engine::UnderWay>& count) {
  struct One {
    explicit One(std::shared_ptr<engine::UnderWay> counted) : of(std::move(counted)) { of->fetch_add(1); }
    ~One() { of->fetch_sub(1); }
    One(const One&) = delete;
    One& operator=(const One&) = delete;
    std::shared_ptr<engine::UnderWay> of;
  };
  return [f = std::move(f), one = std::make_shared<One>(count)] { f(); };
}

Received received_as(const engine::Arrival& a) { return {a.source, a.tag, a.bytes}; }

Status made_elsewhere(const WorkImpl& work) {
  const detail::Parts& parts = work.group->parts();
  return parts.context->process.check(
      fmt::format("the Work of a {} on group \"{}\" (rank {})", work.what.verb, parts.name, parts.rank));
}
}  // namespace

// --- Work ------------------------------------------------------------------------------------------------------------

Work::Work(std::shared_ptr<WorkImpl> impl) : impl_(std::move(impl)) {}

void Work::wait() const { wait(Duration::max()); }
void Work::wait(Duration timeout, bool (*interrupted)() noexcept) const {
  if (impl_ == nullptr) return;
  if (!impl_->group->made_here()) return throw_status(made_elsewhere(*impl_));
  impl_->group->parts().context->cycles->note_caller();
  if (impl_->completion->done()) return throw_status(impl_->group->named(impl_->completion->tell(), impl_->what));
  // A message that nobody sends or takes has a deadline of its own; past it, it is given up.
  const TimePoint now = impl_->group->parts().context->clock.now();
  const Duration left =
      impl_->deadline == TimePoint::max() ? Duration::max() : std::max<Duration>(impl_->deadline - now, Duration{0});
  const bool gives_up = left <= timeout && left != Duration::max();
  detail::Awaited what = impl_->what;
  what.in_work = true;
  what.lasts = what.lasts && timeout >= impl_->group->default_timeout();
  impl_->group->wait(impl_->completion, std::min(left, timeout), what, gives_up, interrupted);
}
bool Work::done() const noexcept {
  if (impl_ == nullptr || !impl_->group->made_here()) return true;
  const engine::Completion& completion = *impl_->completion;
  if (!completion.done() && impl_->soon_over) impl_->group->parts().context->progress->look();
  if (!completion.done()) return false;
  if (completion.checked_by() != nullptr) (void)completion.tell();  // error() has it
  return true;
}

std::exception_ptr Work::error() const noexcept {
  if (impl_ == nullptr) return nullptr;
  const bool here = impl_->group->made_here();
  if (here && !impl_->completion->done()) return nullptr;
  const Status status = here ? impl_->completion->outcome() : Status{};
  if (here && status.ok()) return nullptr;
  try {
    if (!here) throw_status(made_elsewhere(*impl_));
    throw_status(impl_->group->named(status, impl_->what));
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

Received Work::received() const noexcept {
  if (impl_ == nullptr || !impl_->group->made_here() || !impl_->completion->done()) return {};
  return received_as(impl_->completion->arrival());
}

void Work::on_done(std::function<void()> f, bool tells) const {
  if (impl_ == nullptr) return f();
  impl_->group->check_process();
  if (const auto& check = impl_->completion->checked_by(); check != nullptr && tells)
    f = [check, told = std::move(f)] {
      (void)check->seen();
      told();
    };
  group::Progress& progress = *impl_->group->parts().context->progress;
  if (tells) f = counted(std::move(f), impl_->group->parts().context->cycles->callbacks());
  // All others count already, each as what it is: whoever waits looks at whether there are collectives to carry on.
  if (!impl_->completion->on_done(f, impl_->soon_over ? progress.messages() : nullptr)) return f();
  if (impl_->soon_over) progress.rouse();
}

void Work::disown() const noexcept {
  if (impl_ == nullptr || !impl_->group->made_here()) return;
  if (const auto& check = impl_->completion->checked_by(); check != nullptr) check->disown();
}

// --- Group -----------------------------------------------------------------------------------------------------------

Group::Group(std::shared_ptr<GroupImpl> impl) : impl_(std::move(impl)) {}

int Group::rank() const { return need(impl_).rank(); }
int Group::size() const { return need(impl_).size(); }
const std::string& Group::name() const { return need(impl_).parts().name; }
std::string_view Group::transport() const { return need(impl_).parts().transport; }
std::string Group::algorithms() const { return need(impl_).parts().selector.text(); }
std::string Group::topology() const { return need(impl_).parts().topology; }
std::string_view Group::last_algorithm() const { return need(impl_).last_algorithm(); }
std::uint64_t Group::sequence_number() const { return need(impl_).sequence(); }

Buffer Group::allocate(std::size_t bytes) const {
  return Buffer(value_or_throw(use(impl_).parts().context->buffers->allocate(bytes)));
}

Registration Group::register_buffer(void* data, std::size_t bytes) const {
  return Registration(value_or_throw(use(impl_).parts().context->register_buffer(data, bytes)));
}

bool Group::shares(const void* data, std::size_t bytes) const {
  const GroupImpl& group = need(impl_);
  const auto& segment = group.parts().context->segment;
  return segment != nullptr && group.made_here() && segment->find(data, bytes).offset != 0;
}

void Group::run(const Call& call) const { call_on(impl_).run(call); }

Work Group::start(const Call& call) const {
  auto work = std::make_shared<WorkImpl>();
  GroupImpl& g = call_on(impl_);
  work->completion = g.start(call);
  work->group = impl_;
  work->what = {name_of(call.collective)};
  work->what.lasts = g.lasts(call.options);
  return Work(std::move(work));
}

void Group::send(std::span<const std::byte> data, int dst, std::int64_t tag, Options o) const {
  GroupImpl& g = call_on(impl_);
  detail::check_tag_to_send(tag);
  const Duration timeout = o.timeout.value_or(g.default_timeout());
  if (dst == g.rank()) g.refuse_own_message(true, tag);
  const auto completion = g.send(data, dst, tag, timeout);
  g.wait(completion, timeout, {"send", true, dst, tag, data.size(), g.lasts(o)}, true, o.interrupted);
}

Received Group::recv(std::span<std::byte> data, int src, std::int64_t tag, Options o) const {
  GroupImpl& g = call_on(impl_);
  detail::check_tag_to_receive(tag);
  const Duration timeout = o.timeout.value_or(g.default_timeout());
  std::optional<engine::Arrival> arrival = g.receive_now(data, src, tag);
  if (!arrival) {
    if (g.is_own_message(src)) g.refuse_own_message(false, tag);
    const auto completion = g.receive(data, src, tag, timeout);
    g.wait(completion, timeout, {"recv", true, src, tag, data.size(), g.lasts(o)}, true, o.interrupted);
    arrival = completion->arrival();
  }
  return received_as(*arrival);
}

Work Group::isend(std::span<const std::byte> data, int dst, std::int64_t tag, Options o) const {
  GroupImpl& g = call_on(impl_);
  detail::check_tag_to_send(tag);
  auto work = std::make_shared<WorkImpl>();
  group::Progress& progress = *g.parts().context->progress;
  work->completion = g.send(data, dst, tag, o.timeout.value_or(g.default_timeout()), progress.messages());
  if (work->completion == nullptr) work->completion = g.parts().context->messenger->sent();
  work->group = impl_;
  work->what = {"send", true, dst, tag, data.size(), g.lasts(o)};
  if (!work->completion->done()) {  // what went at once needs no clock
    work->deadline = g.deadline(o);
    progress.rouse();
  }
  return Work(std::move(work));
}

Work Group::irecv(std::span<std::byte> data, int src, std::int64_t tag, Options o) const {
  GroupImpl& g = call_on(impl_);
  detail::check_tag_to_receive(tag);
  auto work = std::make_shared<WorkImpl>();
  group::Progress& progress = *g.parts().context->progress;
  work->soon_over = g.is_soon_over(data.size(), src);
  work->completion = g.receive(data, src, tag, o.timeout.value_or(g.default_timeout()),
                               work->soon_over ? progress.soon_over() : progress.messages());
  work->group = impl_;
  work->what = {"recv", true, src, tag, data.size(), g.lasts(o)};
  work->deadline = g.deadline(o);
  if (!work->completion->done()) work->soon_over ? progress.doze() : progress.rouse();
  return Work(std::move(work));
}

Received Group::sendrecv(std::span<const std::byte> out, int dst, std::span<std::byte> in, int src,
                         std::int64_t send_tag, std::int64_t recv_tag, Options o) const {
  GroupImpl& g = call_on(impl_);
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
  return received_as(arrives->arrival());
}

Received Group::sendrecv_replace(std::span<std::byte> data, int dst, int src, std::int64_t send_tag,
                                 std::int64_t recv_tag, Options o) const {
  const std::vector<std::byte> out(data.begin(), data.end());
  return sendrecv(out, dst, data, src, send_tag, recv_tag, o);
}

Received Group::probe(int src, std::int64_t tag, Options o) const {
  return received_as(call_on(impl_).probe(src, tag, o));
}

std::optional<Received> Group::iprobe(int src, std::int64_t tag) const {
  const auto found = call_on(impl_).iprobe(src, tag);
  return found ? std::optional(received_as(*found)) : std::nullopt;
}

Group Group::subgroup(std::span<const int> ranks, Options o) const {
  GroupImpl& g = need(impl_);
  auto made = g.subgroup(ranks, o.timeout.value_or(g.parts().context->config.init_timeout));
  return made ? Group(std::move(made)) : Group();
}

Group Group::split(std::int64_t colour, std::int64_t key, Options o) const {
  GroupImpl& g = need(impl_);
  struct Wish {
    std::int64_t colour, key;
  };
  const Wish mine{colour, key};
  std::vector<Wish> wishes(static_cast<std::size_t>(g.size()));
  Call call;
  call.collective = Collective::all_gather;
  call.input = &mine;
  call.output = wishes.data();
  call.count = sizeof(Wish);
  call.options = o;
  g.run(call);
  if (colour < 0) return {};
  std::vector<int> members;
  for (int r = 0; r < g.size(); r++)
    if (wishes[static_cast<std::size_t>(r)].colour == colour) members.push_back(r);
  std::stable_sort(members.begin(), members.end(), [&](int a, int b) {
    return wishes[static_cast<std::size_t>(a)].key < wishes[static_cast<std::size_t>(b)].key;
  });
  return subgroup(members, o);
}

Group Group::split_by_host(std::int64_t key, Options o) const {
  const GroupImpl& g = need(impl_);
  return split(g.parts().members[static_cast<std::size_t>(g.rank())].machine, key, o);
}

Group Group::dup(Options o) const {
  std::vector<int> all(static_cast<std::size_t>(size()));
  std::iota(all.begin(), all.end(), 0);
  return subgroup(all, o);
}

bool Group::made_here() const noexcept { return impl_ == nullptr || impl_->made_here(); }

void Group::abort(const std::string& reason) const { need(impl_).abort(reason); }
bool Group::destroy(bool (*interrupted)() noexcept) {
  return impl_ == nullptr || impl_->destroy(Duration::max(), interrupted);
}

void Group::same_size(std::size_t a, std::size_t b, const char* what) {
  if (a != b) throw InvalidArgument(fmt::format("{} differ: {} and {} elements. Nothing was sent", what, a, b));
}

// --- Context ---------------------------------------------------------------------------------------------------------

Context::Context(Config config) : impl_(detail::ContextImpl::create(std::move(config), nullptr)) {}
bool Context::made_here() const noexcept { return impl_->process.here(); }

namespace {
void check_process(const detail::ContextImpl& context) {
  throw_status(context.process.check(fmt::format("the Context of rank {}", context.config.rank)));
}
}  // namespace

Buffer Context::allocate(std::size_t bytes) const {
  check_process(*impl_);
  return Buffer(value_or_throw(impl_->buffers->allocate(bytes)));
}
Registration Context::register_buffer(void* data, std::size_t bytes) const {
  check_process(*impl_);
  return Registration(value_or_throw(impl_->register_buffer(data, bytes)));
}
const Config& Context::config() const { return impl_->config; }
bool Context::on_one_node() const { return !impl_->spread; }

Group Context::create_group(std::shared_ptr<Store> store, int rank, int size, const std::string& name) const {
  check_process(*impl_);
  return Group(detail::join(impl_, std::move(store), rank, size, name));
}

}  // namespace unisono
