#include "engine/operation.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/within.h"
#include "engine/messenger.h"

namespace unisono::engine {

/// From so many bytes of inputs and outputs on all ranks, plans store around the caches: what is stored would not be there any more when it
/// is next read, and what lies in its place need not be fetched first.
constexpr std::int64_t kBeyondCaches = 32 << 20;

/// Messages of plans with no more input or output than this are looked for (Compiled::straight). Longer ones are under way for so long that more can be done meanwhile.
constexpr std::int64_t kStraight = 16 << 10;
/// The same where ranks take turns: who looks at everything each time that a turn comes does so with cold caches, and finds nothing.
constexpr std::int64_t kStraightInTurns = 512 << 10;

namespace {
/// Bytes of a slice in messages, the same on all ranks. Long vectors are cut into longer ones: fewer calls and turns.
/// Shorter ones are not: the last slice on its way through the ranks is what all wait for in the end, between hosts longer. (In all_to_all
/// the ranks' largest blocks may differ, and among many ranks scratch would grow.)
std::int64_t network_slice(const Ground& ground, Collective collective, std::int64_t largest_block) noexcept {
  constexpr std::int64_t kShort = 256 << 10, kLong = 512 << 10, kLongVector = 8 << 20, kLongBetweenHosts = 32 << 20;
  constexpr int kFewRanks = 8;
  if (ground.network_slice > 0) return ground.network_slice;
  const bool vary = collective != Collective::all_to_all && ground.size <= kFewRanks;
  return vary && largest_block >= (ground.one_host ? kLongVector : kLongBetweenHosts) ? kLong : kShort;
}
}  // namespace

Operation::Operation(const Ground& ground)
    : Running(0), ground_(ground), peers_(static_cast<std::size_t>(ground.size)) {
  done_ = true;
}

Operation::Operation(Request request, const Ground& ground, std::uint64_t sequence) : Operation(ground) {
  start(std::move(request), sequence);
}

void Operation::start(Request request, std::uint64_t sequence) {
  if (request.prepared != request_.prepared) laid_out_ = nullptr;
  request_ = std::move(request);
  sequence_ = sequence;
  done_ = announced_ = begun_ = false;
  patient_ = true;
  for (Peer& peer : peers_) peer.arrived = false;
  peers_[ground_.rank].where = {};
  next_slice_ = retired_ = 0;
  piece_ = {};
  offered_.reset();
  helping_.reset();
  helper_ = helped_ = -1;
  get_to_ = nullptr;
  reducing_.reset();
  bound_ = &prepared().usual;
  reads_peers_ = prepared().reads_peers;
  shared_open_ = static_cast<bool>(prepared().shared);
  rival_open_ = static_cast<bool>(prepared().rival);
  rival_runs_.reset();
  closed_ = false;
  if (!shared_open_ && !rival_open_) prepare();
}

/// The plan is known: slots for its slices, and scratch, which is another piece of memory each time.
void Operation::prepare() {
  if (laid_out_ != bound_) lay_out();
  const std::int64_t in = bound_->binding.in.total(), out = bound_->binding.out.total();
  const bool in_place = within(request_.in, static_cast<std::size_t>(in), request_.out, static_cast<std::size_t>(out));
  touched_ = in_place ? out : in + out;
  const std::int64_t touched = touched_ * ground_.size;
  large_ = touched >= kBeyondCaches;
  beyond_caches_ = touched > kBeyondCaches;
  uncut_ = bound_->uncut && slices_ == 1 && !large_;
  const std::int64_t short_enough = request_.turns != nullptr ? kStraightInTurns : kStraight;
  straight_ = request_.looks > 0 && slices_ == 1 && !folds_ && std::max(in, out) <= short_enough &&
              !bound_->compiled->straight.empty();
  const bool joint = plan().joint && !reads_peers_;
  const std::int32_t reduction = bound_->compiled->joint_reduction;
  joint_copies_ = joint && reduction < 0;
  joint_gets_ = reads_peers_ && rooted(plan().collective);
  // What lies in caches lies in its owner's: helpers would save nothing there (docs/design/0004).
  joint_reduction_ = joint && reduction >= 0 && beyond_caches_ ? &plan().steps[reduction] : nullptr;
  auto scratch = static_cast<std::size_t>(scratch_stride_) * plan().scratch_extent.size() * slots_.size();
  if (reads_peers_)  // only operands are kept
    scratch = reduces(plan().collective) ? kFetched * static_cast<std::size_t>(ground_.size) : 0;
  if (ground_.scratch && ground_.scratch->size() < scratch) ground_.scratch->resize(scratch);
}

namespace {
/// Whether data only goes from a root to the others, or only from them to it: then nobody has anything to do until the first slice is there.
bool one_way(const plan::Plan& plan) noexcept {
  // In a reduce of several phases data also goes from the owners of sums to the root.
  return rooted(plan.collective) && (plan.collective != Collective::reduce || plan.channels == 1);
}
}  // namespace

void Operation::lay_out() {
  const plan::Plan& plan = this->plan();
  const Binding& binding = bound_->binding;
  const std::int64_t largest = binding.largest_block;
  const bool one_slice = plan.shared && !bound_->compiled->stages();
  slice_bytes_ = one_slice     ? std::max<std::int64_t>(largest, 1)
                 : plan.staged ? ground_.domain->slice_bytes(
                                     static_cast<std::int64_t>(std::max<std::size_t>(plan.stage_extent.size(), 1)),
                                     largest, one_way(plan))
                               : network_slice(ground_, plan.collective, largest);
  exchanges_ = bound_->compiled->exchanges &&
               slice_bytes_ >= ground_.domain->least_exchanged();  // the same on both ranks, as slices are
  slices_ = std::max<std::int64_t>(1, divide_up(largest, slice_bytes_));
  scratch_stride_ = divide_up(std::min(slice_bytes_, largest), 64) * 64 * (plan.wide.empty() ? 1 : 2);
  const std::int64_t window = plan.shared ? 1 : plan.staged ? kWindow : ground_.network_window;
  const auto slots = static_cast<std::size_t>(std::min(slices_, window));
  folds_ =
      !bound_->compiled->foldings.empty() && scratch_stride_ * static_cast<std::int64_t>(slots) >= ground_.least_folded;
  const std::size_t lanes = plan.lanes, steps = plan.steps.size();
  slots_.resize(slots);
  positions_.resize(slots * lanes);
  if (states_room_ < slots * steps) {
    states_room_ = slots * steps;
    states_ = std::make_unique<std::atomic<std::uint8_t>[]>(states_room_);
  }
  for (std::size_t k = 0; k < slots; k++)
    slots_[k].position = positions_.data() + k * lanes, slots_[k].state = states_.get() + k * steps;
  laid_out_ = bound_;
}

bool Operation::advance() {
  if (done_) return false;
  const bool moved = go_on();
  tell();
  return moved;
}

bool Operation::go_on() {
  bool moved = false;
  if (!begun_) {
    if (!begin()) return false;
    moved = true;
    if (done_) return true;
  }
  moved |= start_slices();
  // Oldest first: signals and completions happen in the order of slices, which is what peers count on.
  for (std::int64_t k = retired_; k < next_slice_ && !done_; k++) {
    if (k > retired_) tell();
    moved |= advance_slot(slots_[k % slots_.size()]);
  }
  if (!done_) moved |= retire();
  if (!moved && !done_ &&
      ground_.domain != nullptr)  // two ranks that wait for each other in different calls send nothing
    for (int q = 0; q < ground_.size && !done_; q++) peer_arrived(q);
  return moved;
}

/// Announce the operation, and decide on its plan. False while that has to wait for peers.
bool Operation::begin() {
  if (!announced_ && !announce()) return false;
  if (!done_ && !decide()) return done_;
  if (done_) return true;
  if (ground_.messenger != nullptr && !plan().staged)
    ground_.messenger->begin(ground_.group, sequence_, prepared().signature);
  take_direction();
  long_yields_were_peers();
  begun_ = true;
  return true;
}

/// Whoever has the core does the work of a joint reduction, of all ranks, for as long as the system lets it: to park for that would cost a call into the kernel of each that wakes, and
/// all ranks are woken several times.
void Operation::long_yields_were_peers() noexcept {
  if (joint_reduction_ != nullptr && ground_.crowd != nullptr) ground_.crowd->were_peers();
}

/// Operations of a group begin in the same order on all ranks, and run the same plans: so all of them go the same way at the same time.
void Operation::take_direction() {
  backwards_ = false;
  precedence_ = 0;
  if (!plan().shared || ground_.domain == nullptr) return;
  const bool from_ends = std::exchange(ground_.domain->from_ends, !ground_.domain->from_ends);
  if (large_ || uncut_ || slices_ > 1) return;
  backwards_ = from_ends;
  if (ground_.mates.fill_cache(touched_)) precedence_ = kPrecedence;
}

/// False while a peer is so far behind that it may still read the line that this would overwrite, or the stage.
bool Operation::announce() {
  Peer& me = peers_[ground_.rank];
  me.arrived = announced_ = true;
  if (ground_.domain == nullptr) return true;
  Domain& domain = *ground_.domain;
  for (int q = 0; q < ground_.size; q++)
    if (q != ground_.rank && !domain.may_announce(q, sequence_)) return announced_ = false;
  if (fail_of_the_last(domain)) return announced_ = false;
  Whereabouts mine;
  if (bound_->compiled->stages() || (rival_open_ && prepared().rival.compiled->stages())) {
    auto stage = domain.take_stage(sequence_, patient_);
    if (!stage) {
      fail(stage.status());
      return true;
    }
    if (*stage == nullptr) return announced_ = false;
    me.stage = *stage;
    mine.stage = domain.own_stage_offset();
    if (domain.stores().around() && !bound_->compiled->returns) mine.flags |= Whereabouts::kStagesAround;
  }
  if (shared_open_) open_buffers(mine);
  if (rival_open_ || (shared_open_ && prepared().judge_opens)) judge(domain, mine);
  if (reads_peers_ || rival_open_) {  // what no shared plan needs may still be read by the rival
    if (!mine.opens(plan::kExposesIn)) mine.input = reinterpret_cast<std::uintptr_t>(request_.in);
    if (!mine.opens(plan::kExposesOut)) mine.output = reinterpret_cast<std::uintptr_t>(request_.out);
  }
  if (request_.offers_get) offer_get(mine);
  me.where = mine;
  decide_alone();
  domain.announce(sequence_, prepared().signature, std::as_bytes(std::span(&mine, 1)));
  base_ = domain.slices;
  return true;
}

bool Operation::start_slices() {
  const plan::Plan& plan = this->plan();
  bool moved = false;
  while (!done_ && next_slice_ < slices_ && next_slice_ - retired_ < static_cast<std::int64_t>(slots_.size())) {
    const std::uint64_t global = base_ + static_cast<std::uint64_t>(next_slice_);
    if (plan.staged && !has_place(global)) return moved;
    Slot& slot = slots_[next_slice_ % slots_.size()];
    slot.slice = next_slice_++;
    slot.finished = false;
    if (place_) slot.stage = place_->offset;
    slot.swapped = place_ && swaps(*place_);
    place_.reset();
    std::fill_n(slot.position, plan.lanes, 0);
    for (std::size_t i = 0; i < plan.steps.size() && !uncut_; i++)
      slot.state[i].store(kIdle, std::memory_order_relaxed);
    moved = true;
  }
  return moved;
}

namespace {
/// Where lines go to and fro no core waits until another one has let go of a line, so lines need not have left the caches before they are written again:
/// so many bytes of the stage are enough.
constexpr std::uint64_t kReturning = 1 << 20, kExchanging = 512 << 10;
/// What is for a rank on the same core is soon read there: the less of the stage it goes through, the more of that lies in the core's cache.
constexpr std::uint64_t kBetweenPartners = 128 << 10;
}  // namespace

/// Whether the place of the next slice is free: everybody is done with what lay there before.
bool Operation::has_place(std::uint64_t global) {
  if (!place_) {
    const std::uint64_t bytes = plan().stage_extent.size() * static_cast<std::uint64_t>(slice_bytes_);
    StageRing& ring = ground_.domain->ring();
    const std::uint64_t within = plan().shared ? kBetweenPartners : exchanges_ ? kExchanging : kReturning;
    place_ = to_and_fro() ? ring.take(global, bytes, std::max(within, 2 * bytes)) : ring.take(global, bytes);
  }
  if (place_->free_after == 0) return true;
  for (int q = 0; q < ground_.size; q++)
    if (!ground_.domain->known_done(q, place_->free_after)) return false;
  return true;
}

bool Operation::advance_slot(Slot& slot) {
  if (slot.finished) return false;
  if (uncut_) return advance_uncut(slot);
  if (gives_precedence(slot)) return false;
  if (std::exchange(straight_, false) && go_straight(slot)) return true;
  bool moved = false, all = true;
  for (const std::uint16_t lane : bound_->compiled->turns) {
    if (done_) break;
    moved |= advance_lane(slot, lane);
    all &= slot.position[lane] == bound_->compiled->lanes[lane].size();
  }
  slot.finished = all;
  return moved;
}

/// All steps one after the other, as long as each is done at once; whether all are. What is left takes the usual way.
bool Operation::go_straight(Slot& slot) {
  looks_ = true;
  slot.finished = std::ranges::all_of(bound_->compiled->straight, [&](std::uint32_t step) {
    return run_step(slot, step) && !done_ && slot.state[step].load(std::memory_order_acquire) == kDone;
  });
  looks_ = false;
  return slot.finished;
}

/// The step of a lane whose turn it is: a plan that goes backwards does its first copies in the opposite order.
std::uint32_t Operation::step_at(std::span<const std::uint32_t> lane, std::uint32_t place) const {
  const std::uint32_t opening = bound_->compiled->opening;
  return lane[backwards_ && place < opening ? opening - 1 - place : place];
}

bool Operation::advance_lane(Slot& slot, std::size_t lane) {
  const auto& steps = bound_->compiled->lanes[lane];
  bool moved = false;
  while (slot.position[lane] < steps.size()) {
    const std::uint32_t index = step_at(steps, slot.position[lane]);
    std::uint8_t state = slot.state[index].load(std::memory_order_acquire);
    if (state == kIdle || state == kFolded) {
      if (!ready(slot, index) || !run_step(slot, index) || done_) return moved;
      moved = true;
      state = slot.state[index].load(std::memory_order_acquire);
    }
    if (state != kDone) return post_ahead(slot, lane) || moved;
    slot.position[lane]++;
    moved = true;
  }
  return moved;
}

/// The lane waits for a message: the next ones may come right behind it, and are received straight into place if they are
/// posted by then.
bool Operation::post_ahead(Slot& slot, std::size_t lane) {
  const auto& steps = bound_->compiled->lanes[lane];
  const std::size_t end = std::min<std::size_t>(steps.size(), slot.position[lane] + kPostedAhead);
  bool moved = false;
  for (std::size_t place = slot.position[lane] + 1; place < end; place++) {
    const std::uint32_t index = steps[place];
    if (bound_->compiled->ahead[index] == 0) break;
    if (slot.state[index].load(std::memory_order_acquire) != kIdle) continue;
    if (!ready(slot, index)) break;
    run_message(slot, index);
    moved = true;
  }
  return moved;
}

bool Operation::passed(const Slot& slot, std::uint32_t step) const {
  return slot.position[plan().steps[step].lane] > bound_->compiled->places[step];
}

/// A step is done when its lane has passed it: those behind it in its lane, which may have been posted ahead, stand for it.
bool Operation::ready(const Slot& slot, std::uint32_t index) const {
  const Compiled& compiled = *bound_->compiled;
  for (const std::uint32_t dep : compiled.plan.waits_for(compiled.plan.steps[index]))
    if (!passed(slot, dep)) return false;
  return true;
}

bool Operation::retire() {
  bool moved = false;
  while (retired_ < next_slice_ && slots_[retired_ % slots_.size()].finished) {
    if (plan().staged) ground_.domain->signal_done(base_ + static_cast<std::uint64_t>(retired_) + 1);
    retired_++;
    moved = true;
  }
  if (retired_ == slices_) finish();
  return moved;
}

void Operation::finish() {
  long_yields_were_peers();
  const plan::Plan& plan = this->plan();
  if (plan.staged) {
    // Channels that this plan does not use stay in step with the others.
    const std::uint64_t end = base_ + static_cast<std::uint64_t>(slices_);
    for (int c = plan.channels; c < kChannels; c++) ground_.domain->skip(c, end);
    ground_.domain->slices = end;
  } else if (ground_.messenger != nullptr) {
    ground_.messenger->end(ground_.group, sequence_);
  }
  if (ground_.domain != nullptr) ground_.domain->leave_stage();
  if (own_out_.registered != nullptr)
    own_out_.registered->from_segment(own_out_.offset, static_cast<std::uint64_t>(bound_->binding.out.total()));
  own_in_ = own_out_ = {};  // they keep the caller's registered memory
  done_ = true;
}

}  // namespace unisono::engine
