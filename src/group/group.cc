#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "group/baton.h"
#include "group/blocked_call.h"
#include "group/group_impl.h"

namespace unisono::detail {

using group::Progress;

namespace {

/// So often a short message is looked for before a caller looks at anything else: an answer that was under way comes within a few.
constexpr int kLooks = 64;
/// An operation that has not ended after this time tells the others what it waits in.
constexpr Duration kStalled = std::chrono::milliseconds(200);

}  // namespace

std::shared_ptr<GroupImpl> GroupImpl::create(Parts parts) {
  return {new GroupImpl(std::move(parts)), [](GroupImpl* group) {
            if (group->made_here()) delete group;  // a forked child keeps its copy for good
          }};
}

GroupImpl::GroupImpl(Parts parts) : parts_(std::move(parts)) {
  for (int c = 0; c < kCollectives; c++)
    overridden_[static_cast<std::size_t>(c)] =
        parts_.overrides.find(name_of(static_cast<Collective>(c))) != std::string::npos;
  note_shared_rules();
  if (rank() == 0 && parts_.context->log.enabled(LogLevel::info)) first_runs_ = std::make_unique<group::FirstRuns>();
}

void GroupImpl::adopt(const std::string& tuned) {
  parts_.selector = value_or_throw(plan::Selector::parse(parts_.overrides, tuned));
  parts_.tuned = tuned;
  note_shared_rules();
}

void GroupImpl::note_shared_rules() {
  shared_from_.fill(std::numeric_limits<std::int64_t>::max());
  for (const plan::Rule& rule : parts_.selector.rules()) {
    std::int64_t& from = shared_from_[static_cast<std::size_t>(rule.collective)];
    if (plan::needs_shared_buffers(rule.algorithm->place)) from = std::min(from, rule.from);
  }
}

GroupImpl::~GroupImpl() {
  // Nobody holds the group or a Work of it any more, so nobody will look at the results; a rank that is about to end, perhaps
  // because it raised, must not keep the others waiting.
  destroy(std::chrono::seconds(1));
}

void GroupImpl::refuse_process() const {
  throw_status(parts_.context->process.check(fmt::format("group \"{}\" (rank {})", parts_.name, rank())));
  std::abort();  // not reached: made_here() was false
}

void GroupImpl::check_not_destroyed() const {
  if (destroyed_.load(std::memory_order_relaxed))
    throw InvalidArgument(fmt::format("group \"{}\" is used after destroy(); make a new one", parts_.name));
}

void GroupImpl::check_usable() const {
  check_process();
  check_not_destroyed();
  if (parts_.failure->failed())
    throw_status(annotate(parts_.failure->status(), fmt::format("a call on group \"{}\"", parts_.name), TimePoint{}));
}

engine::Signature GroupImpl::signature_of(const Call& call, const plan::Algorithm* requested) const {
  engine::Signature::Fields f;
  f.collective = call.collective;
  f.dtype = call.dtype;
  f.op = reduces(call.collective) ? call.op : ReduceOp::sum;
  f.root = root_of(call);
  f.uneven = !call.counts.empty();
  f.algorithm = requested == nullptr ? 0 : static_cast<int>(requested - plan::algorithms().data()) + 1;
  std::uint64_t count = static_cast<std::uint64_t>(call.count);
  if (call.collective == Collective::barrier) f.dtype = DType::u8, count = 0;
  if (f.uneven) {
    // all_to_all's counts differ by rank and are checked message by message; the others' are equal on all ranks.
    count = call.collective == Collective::all_to_all ? 0 : 0xcbf29ce484222325ull;
    if (call.collective != Collective::all_to_all)
      for (const std::int64_t c : call.counts) count = (count ^ static_cast<std::uint64_t>(c)) * 0x100000001b3ull;
  }
  return engine::Signature::make(f, count);
}

// --- running -------------------------------------------------------------------------------------------------------

void GroupImpl::run(const Call& call) {
  check_usable();
  validate(call, rank(), size(), parts_.name);
  if (checks_ != nullptr) [[unlikely]]
    return run_checked(call);
  run_valid(call);
}

void GroupImpl::run_valid(const Call& call) {
  if (!is_misplaced(call, rank(), size()) && (run_tiny(call) || run_alone(call))) return;
  auto pending = std::make_unique<Pending>();
  pending->call = call;
  const auto completion = pending->completion = std::make_shared<engine::Completion>();
  submit(std::move(pending));
  Awaited what{name_of(call.collective)};
  what.lasts = lasts(call.options);
  wait(completion, Duration::max(), what, false, call.options.interrupted);
}

std::shared_ptr<engine::Completion> GroupImpl::start(const Call& call) {
  check_usable();
  validate(call, rank(), size(), parts_.name);
  return checks_ != nullptr ? start_checked(call) : start_valid(call);
}

std::shared_ptr<engine::Completion> GroupImpl::start_valid(const Call& call) {
  auto pending = std::make_unique<Pending>();
  pending->call = call;
  group::Progress& progress = *parts_.context->progress;
  auto completion = pending->completion = std::make_shared<engine::Completion>(progress.collectives());
  submit(std::move(pending));
  progress.rouse();
  return completion;
}

void GroupImpl::submit(std::unique_ptr<Pending> pending) {
  Pending& p = *pending;
  p.counts.assign(p.call.counts.begin(), p.call.counts.end());
  p.output_counts.assign(p.call.output_counts.begin(), p.call.output_counts.end());
  p.call.counts = p.counts;
  p.call.output_counts = p.output_counts;
  if (p.requested = requested(p.call); p.requested != nullptr) {
    p.call.options.algorithm = p.requested->name;
    p.algorithm = p.requested;
    if (auto chosen = choose(p); !chosen) throw_status(chosen.status());
    if (plan::needs_shared_buffers(p.requested->place)) {
      const plan::Plan plan = p.requested->build({size(), rank(), root_of(p.call), parts_.hosts, parts_.nodes});
      refuse_private_buffers(p, plan, engine::bind(plan, {p.call.count, p.counts, p.output_counts}, p.call.dtype));
    }
  }
  set_clocks(p);
  const std::lock_guard lock(queue_mutex_);
  check_not_destroyed();  // by another thread, since
  queue_.push_back(std::move(pending));
  queued_.fetch_add(1, std::memory_order_release);
}

const plan::Algorithm* GroupImpl::requested(const Call& call) {
  if (call.options.algorithm.empty()) return nullptr;
  const plan::Algorithm* algorithm = plan::find_algorithm(call.collective, call.options.algorithm);
  if (algorithm == nullptr)
    throw InvalidArgument(fmt::format("{} has no algorithm \"{}\"; `unisono plan --list` shows them. Nothing was sent",
                                      name_of(call.collective), call.options.algorithm));
  return algorithm;
}

void GroupImpl::set_clocks(Pending& p) const {
  p.started = parts_.context->clock.now();
  p.deadline = saturating_add(p.started, p.call.options.timeout.value_or(default_timeout()));
  p.probe_at = saturating_add(p.started, kStalled);
}

/// Under the baton: the operation at the head gets its number, its algorithm and its plan.
bool GroupImpl::begin(Pending& p) {
  p.sequence = sequence_.fetch_add(1, std::memory_order_relaxed) + 1;
  ran_.store(nullptr, std::memory_order_relaxed);
  read_news(p);
  if (lacks_a_rank(p.sequence)) return false;
  put_in_place(p.call, rank(), size());
  if (p.completion != nullptr) p.probe_at = saturating_add(parts_.context->clock.now(), kStalled);  // it was queued
  if (const auto tiny = inline_call(p.call, p.requested)) {
    p.tiny =
        std::make_unique<engine::InlineOperation>(*tiny, *parts_.domain, signature_of(p.call, nullptr), p.sequence);
    p.operation = p.tiny.get();
    return true;
  }
  if (p.known == nullptr)
    if (const Status s = know(p); !s.ok()) {
      fail(s);
      return false;
    }
  if (operation_ == nullptr) operation_ = std::make_unique<engine::Operation>(ground());
  const engine::Prepared& prepared = *p.known->prepared;
  adopt_buffers(p);
  const bool fetches = (prepared.reads_peers || prepared.rival) && reduces(p.call.collective);
  if (!prepared.usual.plan().scratch_extent.empty() || fetches) scratch_ = parts_.context->scratch.take();
  engine::Request request{p.known->prepared, static_cast<const std::byte*>(p.call.input),
                          static_cast<std::byte*>(p.call.output)};
  if (p.known->rivalry != nullptr) compete(p, request);
  if (p.known->got > 0) request.offers_get = offers_get(p, request);
  look_meanwhile(request);
  operation_->start(std::move(request), p.sequence);
  p.operation = operation_.get();
  return true;
}

/// Some collectives end here without a word from the others: what those have said is read before
/// they begin.
void GroupImpl::read_news(const Pending& p) const {
  const Collective c = p.call.collective;
  const bool from_root = c == Collective::broadcast || c == Collective::scatter;
  if (rooted(c) && !one_host_ && from_root == (p.call.root == rank()))
    parts_.context->messenger->poll(engine::Look::quick);
}

/// Who has destroyed the group takes no part in later collectives: then the group fails. Every rank
/// hears of that and fails by itself, when it comes to one of those.
bool GroupImpl::lacks_a_rank(std::uint64_t sequence) {
  if (!parts_.failure->departed()) return false;
  engine::Messenger& messenger = *parts_.context->messenger;
  const Status gone = messenger.departure_before(parts_.id, sequence);
  if (!gone.ok()) messenger.fail_group(parts_.id, gone, false);
  return !gone.ok();
}

/// A caller that waits has nothing else to do, unless its peer needs this core to answer: then one question to the kernel in each turn is enough, and memory is looked
/// at as a whole. The progress thread is to leave the core to the program.
void GroupImpl::look_meanwhile(engine::Request& request) const {
  Progress& progress = *parts_.context->progress;
  if (progress.on_its_thread()) return;
  if (!progress.ranks_take_turns()) {
    request.looks = kLooks;
  } else if (parts_.context->messenger->kernel_links()) {
    request.looks = 1;
    request.turns = &progress;
  }
}

engine::Ground GroupImpl::ground() {
  engine::Ground ground;
  ground.domain = parts_.domain.get();
  ground.messenger = parts_.context->messenger.get();
  ground.group = parts_.id;
  ground.rank = rank();
  ground.size = size();
  ground.scratch = &scratch_;
  ground.mates = parts_.mates;
  ground.crowd = &parts_.context->progress->crowd();
  if (parts_.context->config.slice_bytes > 0)
    ground.network_slice = (parts_.context->config.slice_bytes + 63) / 64 * 64;
  ground.one_host = std::ranges::adjacent_find(parts_.hosts, std::ranges::not_equal_to()) == parts_.hosts.end();
  Duration longest{};
  for (const Member& m : parts_.members)
    if (!ground.one_host && m.peer >= 0) longest = std::max(longest, ground.messenger->round_trip(m.peer));
  ground.network_window = engine::messages_window(ground.one_host, longest);
  return ground;
}

bool GroupImpl::advance() {
  if (queued_.load(std::memory_order_acquire) == 0) return false;
  std::unique_ptr<Pending> ended;
  Status status;
  {
    const Baton baton(baton_);
    if (!baton.held())  // the first who is refused it looks again before it sleeps
      return !contended_.load(std::memory_order_relaxed) && !contended_.exchange(true);
    Pending* head = nullptr;
    {
      const std::lock_guard lock(queue_mutex_);
      if (queue_.empty()) return false;
      head = queue_.front().get();
    }
    if (const Step done = step(*head, status); done != Step::ended) return done == Step::moved;
    const std::lock_guard lock(queue_mutex_);
    ended = std::move(queue_.front());
    queue_.pop_front();
    queued_.fetch_sub(1, std::memory_order_release);
  }
  for (auto& callback : ended->completion->complete(std::move(status))) callback();
  return true;
}

GroupImpl::Step GroupImpl::step(Pending& p, Status& status, bool checks) {
  bool moved = false;
  if (!parts_.failure->failed() && (p.operation != nullptr || begin(p))) moved = advance_operation(p);
  if (!parts_.failure->failed() && p.operation->done())
    if (const Status s = settle(*p.operation); !s.ok()) moved = true;
  if (!moved && checks && !parts_.failure->failed())
    if (Status s = check_on(p); !s.ok()) fail(s);
  if (parts_.failure->failed()) {
    if (!let_go(p)) return moved ? Step::moved : Step::nothing;
    // Once the messenger has let go of it, nothing refers to the operation's memory any more.
    parts_.context->messenger->forget(parts_.id, parts_.failure->status());
    if (p.started == TimePoint{}) set_clocks(p);
    status = annotate(parts_.failure->status(), describe(p), p.started);
    p.operation = nullptr;
    operation_.reset();  // it may keep the caller's memory
  } else if (!p.operation->done()) {
    return moved ? Step::moved : Step::nothing;
  } else {
    note_run(p);
  }
  parts_.context->scratch.give(std::exchange(scratch_, {}));
  return Step::ended;
}

/// Of an operation that has ended well.
void GroupImpl::note_run(const Pending& p) {
  const plan::Algorithm* const algorithm = p.tiny != nullptr ? nullptr : &ran(p);
  ran_.store(algorithm == nullptr ? &kInline : &algorithm->name, std::memory_order_relaxed);
  if (first_runs_ != nullptr) [[unlikely]]
    tell_run(p.call, &p, algorithm);
}

/// While nothing moves, every few milliseconds: has the deadline passed, has somebody left that we wait for?
Status GroupImpl::check_on(Pending& p) {
  const TimePoint now = parts_.context->clock.now();
  if (now < next_check_) return {};
  next_check_ = saturating_add(now, std::chrono::milliseconds(10));
  if (lacks_a_rank(p.sequence)) return {};
  const bool stalled = now >= saturating_add(p.started, kStalled);
  if (now >= p.probe_at) p.operation->hurry();
  if (now >= p.probe_at || (stalled && parts_.context->messenger->heard_news(parts_.id))) {
    parts_.context->messenger->probe(parts_.id, p.sequence, signature_of(p.call, p.requested));
    p.probe_at = saturating_add(now, std::chrono::seconds(5));
  }
  const std::vector<int> waiting = p.operation ? p.operation->waiting_for() : std::vector<int>{};
  if (Status gone = parts_.context->messenger->departure(parts_.id, waiting); !gone.ok()) {
    // What it sent before it left has been read by now; only if that does not help is it missed.
    if (!p.operation->advance()) return gone;
    return {};
  }
  if (now < p.deadline) return {};
  // Over a network probes have told by then.
  return late(p.sequence, waiting, parts_.domain != nullptr || now >= saturating_add(p.started, 2 * kStalled));
}

void GroupImpl::fail(const Status& status) {
  const Member& me = parts_.members[rank()];
  const bool ours = status.code() == Code::aborted && status.pid() == 0;
  parts_.context->messenger->fail_group(parts_.id, ours ? Status::aborted(status.message(), me.host, me.pid) : status,
                                        true);
}

void GroupImpl::abort(const std::string& reason) {
  check_process();
  fail(Status::aborted(fmt::format("group \"{}\" was aborted by rank {} (host {}, pid {}): {}", parts_.name, rank(),
                                   parts_.members[rank()].host, parts_.members[rank()].pid, reason)));
}

void GroupImpl::wait(const std::shared_ptr<engine::Completion>& completion, Duration timeout, const Awaited& what,
                     bool cancel, Progress::Interrupted interrupted) {
  if (completion == nullptr) return;
  if (parts_.context->progress->soon(*this, one_host_, [&] { return completion->done(); }))
    return throw_status(named(completion->tell(), what));
  if (what.message) {
    BlockedInMessage blocked(*this, completion, what);
    wait(completion, timeout, what, cancel, interrupted, blocked);
  } else {
    BlockedInQueue blocked(*this, what.lasts);
    wait(completion, timeout, what, cancel, interrupted, blocked);
  }
}

void GroupImpl::wait(const std::shared_ptr<engine::Completion>& completion, Duration timeout, const Awaited& what,
                     bool cancel, Progress::Interrupted interrupted, engine::Blocked& blocked) {
  const auto done = [&] { return completion->done(); };
  const TimePoint started = parts_.context->clock.now();
  engine::WaitCycles::Search search(*parts_.context->cycles, blocked, started);
  Progress& progress = *parts_.context->progress;
  const auto outcome = progress.wait(this, saturating_add(started, timeout), interrupted, done, false, &search);
  if (outcome == Progress::Outcome::interrupted) {
    if (what.in_work)
      throw_status(Status::aborted(
          fmt::format("waiting for a {} was interrupted; it goes on, and waiting can be repeated", what.verb)));
    interrupt(completion, what);
    progress.wait(this, TimePoint::max(), nullptr, done);
  } else if (outcome == Progress::Outcome::deadline) {
    const std::string words = describe(what);
    const Status late_status =
        search.explain(annotate(Status::timeout(fmt::format("{} did not come to an end within {:.3f} s", words,
                                                            std::chrono::duration<double>(timeout).count()),
                                                what.peer < 0 ? std::vector<int>{} : std::vector{what.peer}),
                                words, started));
    if (!cancel) throw_status(late_status);
    parts_.context->messenger->cancel(parts_.id, completion, late_status);
    // cancel() completes it, unless it came at the last moment.
    progress.wait(this, TimePoint::max(), nullptr, done);
    return throw_status(named(completion->tell(), what, started));
  }
  throw_status(search.explain(named(completion->tell(), what, started)));
}

Status GroupImpl::interruption(std::string_view verb) const {
  const Member& me = parts_.members[rank()];
  return Status::aborted(
      fmt::format("group \"{}\" was aborted: rank {} (host {}, pid {}) was interrupted in {} (Ctrl-C, or a signal "
                  "handler raised), half-way through what the others take part in. The group cannot be used any more, "
                  "on no rank; make a new one",
                  parts_.name, rank(), me.host, me.pid, verb));
}

bool GroupImpl::withdraw(const std::shared_ptr<engine::Completion>& completion, const Awaited& what) const {
  const Status cancelled =
      Status::aborted(fmt::format("{} was cancelled before anything came; the group goes on", describe(what)));
  return parts_.context->messenger->withdraw_receive(parts_.id, completion, cancelled);
}

/// A receive to which nothing has come is given up alone; everything else that is not done takes
/// the group with it.
void GroupImpl::interrupt(const std::shared_ptr<engine::Completion>& completion, const Awaited& what) {
  const Status alone = Status::aborted(fmt::format(
      "{} was interrupted before anything came: nothing is lost, and the group can be used as before", describe(what)));
  if (what.message && parts_.context->messenger->withdraw_receive(parts_.id, completion, alone)) return;
  if (!completion->done()) fail(interruption(what.verb));
}

/// Once nothing runs and nothing waits; false before. A small operation of another thread holds the
/// baton and is not queued. What comes later is refused by submit().
bool GroupImpl::take_baton_for_good() {
  const std::lock_guard lock(queue_mutex_);
  return queued_.load(std::memory_order_acquire) == 0 && !baton_.exchange(true, std::memory_order_acquire);
}

bool GroupImpl::destroy(Duration patience, group::Progress::Interrupted interrupted) {
  if (!made_here()) return true;
  destroyed_.store(true);
  if (holder_.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
    // The call ends when the handler returns, and the group is left when its last handle goes.
    abort("it was destroyed in a signal handler that interrupted a call");
    return false;
  }
  if (left_.exchange(true)) return true;
  bool ours = false;
  const auto idle = [&] { return ours || (ours = take_baton_for_good()); };
  const TimePoint until = saturating_add(parts_.context->clock.now(), patience);
  if (parts_.context->progress->wait(this, until, interrupted, idle) != group::Progress::Outcome::done) {
    abort("it left the group with operations in flight");
    parts_.context->progress->wait(this, TimePoint::max(), nullptr, idle);
  }
  if (parts_.domain != nullptr) parts_.domain->leave();
  parts_.context->retire(std::move(parts_.domain), parts_.id);
  engine::Messenger& messenger = *parts_.context->messenger;
  group::Progress& progress = *parts_.context->progress;
  messenger.close_group(parts_.id, sequence_.load(std::memory_order_relaxed), progress.messages());
  if (progress.messages()->load() > 0)
    progress.rouse();  // somebody does not read just now: the thread goes on saying it
  return true;
}

}  // namespace unisono::detail
