/// The steps of a plan, on memory and messages. When they run: operation.cc.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>

#include "engine/messenger.h"
#include "engine/operands.h"
#include "engine/operation.h"

namespace unisono::engine {

using plan::OpCode;
using plan::Ref;
using plan::Space;
using plan::Step;

namespace {
/// So often a rank gives way to others for a message before it looks at anything else.
constexpr int kTurns = 16;
/// Bytes that are gone through from their beginning where a block is gone through from its end; 32 to 256 KiB are alike.
constexpr std::size_t kBackwards = 128 << 10;
static_assert(kBackwards <= kFetched);

/// Those of `count` destinations, as bits of kernels::Reduce::around, of which `which` holds; the last bit stands for all from there on.
template <class Which>
std::uint32_t bits_of(std::size_t count, Which&& which) {
  std::uint32_t yes = 0, no = 0;
  for (std::size_t k = 0; k < count; k++) (which(k) ? yes : no) |= std::uint32_t{1} << std::min<std::size_t>(k, 31);
  return yes & ~no;
}

/// Those of the destinations `dst`, which lie in `results`, that go around the caches: what is reduced in place lies there
/// already, and stages are read from there by others.
std::uint32_t bypassing(std::span<const Ref> dst, std::span<void* const> results,
                        std::span<void* const> sources) noexcept {
  return bits_of(dst.size(), [&](std::size_t k) {
    return dst[k].space != Space::stage && std::find(sources.begin(), sources.end(), results[k]) == sources.end();
  });
}
}  // namespace

bool Operation::run_step(Slot& slot, std::uint32_t index) {
  const Step& step = plan().steps[index];
  switch (step.op) {
    case OpCode::wait:
      if (!run_wait(slot, step)) return help(slot, step.peer);
      break;
    case OpCode::signal:
      if (!run_signal(slot, step)) return false;
      break;
    case OpCode::copy:
    case OpCode::put:
    case OpCode::get:
      if (const Done done = run_copy(slot, index); done != Done::all) return done == Done::some;
      break;
    case OpCode::reduce:
      if (slot.state[index].load(std::memory_order_relaxed) == kFolded) break;  // with the message
      if (const Done done = run_reduce(slot, index); done != Done::all) return done == Done::some;
      break;
    case OpCode::send:
    case OpCode::recv:
      run_message(slot, index);
      return true;
  }
  slot.state[index].store(kDone, std::memory_order_release);
  return true;
}

bool Operation::run_wait(const Slot& slot, const Step& step) {
  return peer_arrived(step.peer) && ground_.domain->reached(step.peer, step.channel, global_slice(slot) + 1);
}

bool Operation::run_signal(const Slot& slot, const Step& step) {
  // A counter counts slices: an earlier slice must have signalled first.
  if (ground_.domain->signalled(step.channel) != global_slice(slot)) return false;
  ground_.domain->signal(step.channel, global_slice(slot) + 1);
  return true;
}

Operation::Part Operation::part(const Slot& slot, const Ref& ref, std::int32_t block) const {
  const std::int64_t at = slot.slice * slice_bytes_;
  const auto clip = [&](std::int64_t size) {
    return static_cast<std::size_t>(std::clamp<std::int64_t>(size - at, 0, slice_bytes_));
  };
  const Binding& binding = bound_->binding;
  switch (ref.space) {
    case Space::in:
      // A plan never writes to `in`: the verifier proves it, so dropping const here is safe.
      return {const_cast<std::byte*>(request_.in) + binding.in.offset[block] + at, clip(binding.in.size(block))};
    case Space::out:
      return {request_.out + binding.out.offset[block] + at, clip(binding.out.size(block))};
    case Space::scratch: {
      const auto index = static_cast<std::size_t>(slot.slice % static_cast<std::int64_t>(slots_.size()));
      const std::size_t offset = (index * binding.scratch.size() + static_cast<std::size_t>(block)) *
                                 static_cast<std::size_t>(scratch_stride_);
      return {ground_.scratch->data() + offset,
              clip(binding.scratch[block]) * (plan().is_wide(ref.space, block) ? 2 : 1)};
    }
    case Space::stage: {
      const std::size_t offset = slot.stage + static_cast<std::size_t>(block * slice_bytes_);
      // How much of another rank's block is used is for the other side of the step to say.
      const std::size_t bytes =
          ref.rank == ground_.rank ? clip(binding.stage[block]) : static_cast<std::size_t>(slice_bytes_);
      return {peers_[host_of(slot, ref.rank)].stage + offset, bytes};
    }
    case Space::peer_in:
    case Space::peer_out: {
      const PeerBlock there = peer_block(plan(), binding, ref.space, ref.rank, block);
      if (reads_peers_) {
        const std::uint64_t from = announced_at(ref.space, ref.rank);
        return {reinterpret_cast<std::byte*>(from + static_cast<std::uint64_t>(there.offset + at)), clip(there.bytes),
                ref.rank};
      }
      const Peer& peer = peers_[ref.rank];
      return {(ref.space == Space::peer_in ? peer.in : peer.out) + there.offset + at, clip(there.bytes)};
    }
  }
  return {nullptr, 0};
}

/// The address, in its own process, of a peer's buffer.
std::uint64_t Operation::announced_at(Space space, std::int32_t rank) const {
  const Whereabouts& where = peers_[rank].where;
  const bool input = space == Space::peer_in;
  const std::uint64_t said = input ? where.input : where.output;
  return where.opens(input ? plan::kExposesIn : plan::kExposesOut) ? ground_.domain->address_of(rank, said) : said;
}

/// Copies from another rank's memory, from byte `at` of `from` on, through the kernel, to one part after another. False when it could not: the rank
/// has ended, or has given up because another one has and left its buffer to its caller, both of which the messenger is about to tell; or the
/// operation has failed.
bool Operation::fetch(std::span<const transport::MutablePart> parts, const Part& from, std::size_t at) {
  const int error = ground_.domain->read_peer(from.peer, parts, reinterpret_cast<std::uintptr_t>(from.data) + at);
  if (error != 0 && error != ESRCH && !ground_.domain->gave_up(from.peer, sequence_)) {
    std::size_t bytes = 0;
    for (const transport::MutablePart& part : parts) bytes += part.size();
    fail(Status::system(
        fmt::format(
            "cannot read rank {}'s memory (process_vm_readv of {} bytes): was its buffer freed during the operation?",
            from.peer, bytes),
        error));
  }
  return error == 0;
}

bool Operation::fetch(std::byte* to, const Part& from, std::size_t at, std::size_t bytes) {
  const transport::MutablePart part(to, bytes);
  return fetch({&part, 1}, from, at);
}

/// Of a block of so many bytes, of which piece_.at are done.
Operation::Stretch Operation::next_stretch(std::size_t bytes) const {
  const std::size_t left = bytes - piece_.at;
  if (!plan().shared) return {piece_.at, left};
  const bool fetches = reads_peers_ && reduces(plan().collective);
  if (!backwards_) return {piece_.at, std::min(fetches ? kFetched : kPiece, left)};
  // A call into the kernel takes as long as copying some KiB: it pays where there are several anyhow.
  std::size_t most = kBackwards;
  if (reads_peers_ && !fetches) most = bytes > kPiece ? 2 * kBackwards : kPiece;
  const std::size_t at = left > 0 ? (left - 1) / most * most : 0;
  return {at, left - at};
}

/// Copies, and reduces likewise, all blocks of a step; of a shared plan at most one piece of one. Those behind it which copy from the same place
/// do so at once: memory is read once, and the piece lies in the cache for all but the first.
Operation::Done Operation::run_copy(Slot& slot, std::uint32_t index) {
  if (offered_ && (!joint_gets_ || get_to_ != nullptr)) return run_offered();
  const plan::Plan& plan = this->plan();
  const Step& step = plan.steps[index];
  const Ref& s = plan.src(step)[0];
  const auto steps = plan.shared && !reads_peers_ ? bound_->compiled->together(index) : std::span(&index, 1);
  const auto target = [&](std::uint32_t k) -> const Ref& { return plan.dst(plan.steps[k])[0]; };
  if (target(index).space == Space::stage && !has_stage(slot)) return Done::nothing;
  if (reads_peers_ && plan::is_peer(s.space) && !is_readable(s.rank)) return Done::nothing;
  for (; piece_.block < s.count; piece_ = {piece_.block + 1, 0}) {
    const Part from = part(slot, s, s.first + piece_.block);
    std::size_t bytes = 0;
    Stretch now;
    for (const std::uint32_t k : steps) {
      const Ref& d = target(k);
      const Part to = part(slot, d, d.first + piece_.block);
      if (to.data == from.data && from.peer < 0) continue;
      bytes = std::min(to.bytes, from.bytes);
      now = next_stretch(bytes);
      if (now.bytes == 0) continue;
      if (now.bytes > kBrief) tell();
      if (to.bytes != from.bytes && convert(step, to, from)) continue;
      const bool whole = steps.size() == 1 && piece_.at == 0;
      if (whole && joint_copies_ && offer(slot, step)) return run_offered();
      if (whole && is_offered_get(index)) return run_get(to.data, from);
      if (from.peer < 0 && d.space == Space::stage && !to_and_fro())
        ground_.domain->stores().copy(to.data + now.at, from.data + now.at, now.bytes);
      else if (from.peer < 0 && (s.space == Space::stage || d.space == Space::stage))
        kernels::fetch(to.data + now.at, from.data + now.at, now.bytes, large_ && d.space != Space::stage);
      else if (from.peer < 0)
        copy(to.data + now.at, from.data + now.at, now.bytes, large_, copies_);
      else if (!fetch(to.data + now.at, from, now.at, now.bytes))
        return Done::nothing;
    }
    piece_.at += now.bytes;
    if (plan.shared && piece_.at < bytes) return Done::some;
  }
  piece_ = {};
  for (const std::uint32_t k : steps.subspan(1)) slot.state[k].store(kDone, std::memory_order_release);
  return Done::all;
}

/// How sources in memory are gone through makes 5 to 50 % of the time, and which way is better depends on the machine (docs/design/0004).
void Operation::reduce_piece(kernels::Reduce& what, std::span<void* const> dst, std::span<void* const> src,
                             std::size_t bytes) {
  const auto run = [&] {
    kernels::reduce(what, dst, std::span<const void* const>(src.data(), src.size()), bytes / size_of(what.dtype));
  };
  if (!beyond_caches_ || bytes < FasterWay::kLeast) return run();
  auto& places = places_[(plan().shared ? 1 : 0) + (what.around != 0 ? 2 : 0)];
  FasterWay& ways = places[src.size() < places.size() ? src.size() : 0];
  ways.take(bytes, [&](std::size_t way) {
    what.far = way == 1;
    run();
  });
}

/// Where the operands of a step lie, destinations first: of each the block so many after its first, from byte `at` on. Returns how many bytes all
/// of these blocks have, from their beginnings.
std::size_t Operation::find_operands(const Slot& slot, const Step& step, std::int32_t further, std::size_t at,
                                     std::span<void*> memory) const {
  std::size_t bytes = std::numeric_limits<std::size_t>::max(), k = 0;
  for (const auto refs : {plan().dst(step), plan().src(step)})
    for (const Ref& ref : refs) {
      const Part p = part(slot, ref, ref.first + further);
      bytes = std::min(bytes, p.bytes);
      memory[k++] = p.data + at;
    }
  return bytes;
}

/// Brings those operands here that lie in the memory of others, which can only be read through the kernel.
bool Operation::fetch_operands(const Slot& slot, const Step& step, const Stretch& now, std::span<void*> memory) {
  std::size_t k = plan().dst(step).size();  // such plans write to nobody else
  for (const Ref& ref : plan().src(step)) {
    void*& operand = memory[k++];
    const Part p = part(slot, ref, ref.first + piece_.block);
    if (p.peer < 0) continue;
    std::byte* const fetched = ground_.scratch->data() + static_cast<std::size_t>(p.peer) * kFetched;
    if (!fetch(fetched, p, now.at, now.bytes)) return false;
    operand = fetched;
  }
  return true;
}

/// Whether it reads what another rank has staged around the caches.
bool Operation::from_memory(const Step& step) const {
  return std::ranges::any_of(plan().src(step), [&](const Ref& ref) {
    return ref.space == Space::stage && ref.rank != ground_.rank &&
           (peers_[ref.rank].where.flags & Whereabouts::kStagesAround) != 0;
  });
}

kernels::Reduce Operation::reduction(const Step& step) const {
  const Ref& result = plan().dst(step)[0];
  const DType dtype = plan().is_wide(result.space, result.first) ? DType::f32 : prepared().dtype;
  return {dtype, prepared().op, step.final && prepared().op == ReduceOp::avg ? ground_.size : 1};
}

/// A copy to or from wide scratch; false: it is no such copy.
bool Operation::convert(const Step& step, const Part& to, const Part& from) const {
  const Ref &d = plan().dst(step)[0], &s = plan().src(step)[0];
  const bool widens = plan().is_wide(d.space, d.first);
  if (widens == plan().is_wide(s.space, s.first)) return false;
  const std::size_t count = std::min(to.bytes, from.bytes) / size_of(prepared().dtype);
  if (widens)
    kernels::widen(to.data, from.data, prepared().dtype, count);
  else
    kernels::narrow(to.data, from.data, prepared().dtype, count);
  return true;
}

void Operation::reduce_operands(const Step& step, std::span<void* const> memory, std::size_t bytes) {
  const plan::Plan& plan = this->plan();
  const auto dst = plan.dst(step);
  const auto results = memory.first(dst.size()), sources = memory.subspan(dst.size());
  kernels::Reduce what = reduction(step);
  if (large_ && step.final && (plan.shared || plan.staged) && !reads_peers_)
    what.around = bypassing(dst, results, sources);
  what.far = beyond_caches_ || from_memory(step);
  const std::uint32_t on_stage =
      bits_of(dst.size(), [&](std::size_t k) { return dst[k].space == Space::stage && !to_and_fro(); });
  const auto run = [&](bool stage_around) {
    kernels::Reduce piece = what;
    if (stage_around) piece.around |= on_stage;
    reduce_piece(piece, results, sources, bytes);
  };
  on_stage != 0 ? ground_.domain->stores().store(kernels::SharedStores::Kind::reduce, bytes, run) : run(false);
}

Operation::Done Operation::run_reduce(const Slot& slot, std::uint32_t index) {
  const plan::Plan& plan = this->plan();
  const Step& step = plan.steps[index];
  if (joint_reduction_ == &step) return run_joint_reduction(slot);
  if (is_offered_get(index)) return run_get(request_.out, part(slot, bound_->compiled->got(), 0));
  Operands memory(step.dst_count + step.src_count);
  for (const std::int32_t blocks = plan.dst(step)[0].count; piece_.block < blocks; piece_ = {piece_.block + 1, 0}) {
    const std::size_t bytes = find_operands(slot, step, piece_.block, 0, memory.all());
    const Stretch now = next_stretch(bytes);
    if (now.bytes == 0) continue;
    for (void*& operand : memory.all()) operand = static_cast<std::byte*>(operand) + now.at;
    if (now.bytes > kBrief) tell();
    if (reads_peers_ && !fetch_operands(slot, step, now, memory.all())) return Done::nothing;
    reduce_operands(step, memory.all(), now.bytes);
    piece_.at += now.bytes;
    if (plan.shared && piece_.at < bytes) return Done::some;
  }
  piece_ = {};
  return Done::all;
}

void Operation::run_message(Slot& slot, std::uint32_t index) {
  const plan::Plan& plan = this->plan();
  const Step& step = plan.steps[index];
  const bool sending = step.op == OpCode::send;
  std::vector<transport::MutablePart> parts;
  std::uint64_t total = 0;
  for (const Ref& ref : sending ? plan.src(step) : plan.dst(step))
    for (std::int32_t b = ref.first; b < ref.first + ref.count; b++) {
      const Part p = part(slot, ref, b);
      if (p.bytes == 0) continue;
      total += p.bytes;
      if (!parts.empty() && parts.back().data() + parts.back().size() == p.data)
        parts.back() = {parts.back().data(), parts.back().size() + p.bytes};
      else
        parts.emplace_back(p.data, p.bytes);
    }
  // Slices beyond the end of a block are not sent at all; the first one always is, since an empty message can be a signal.
  if (slot.slice > 0 && total == 0) {
    slot.state[index].store(kDone, std::memory_order_release);
    return;
  }
  FrameHeader header;
  header.kind = FrameKind::collective;
  header.group = ground_.group;
  header.sequence = sequence_;
  header.slice = static_cast<std::uint32_t>(slot.slice);
  header.ordinal = bound_->compiled->ordinals[index];
  header.signature = prepared().signature;
  header.length = total;
  slot.state[index].store(kPosted, std::memory_order_relaxed);
  if (sending) return ground_.messenger->send(ground_.group, step.peer, header, parts, &slot.state[index]);
  const Stream::Found found = looks_ ? collect(slot, index, header, parts) : Stream::Found::something_else;
  if (found == Stream::Found::all)
    slot.state[index].store(kDone, std::memory_order_release);
  else if (found != Stream::Found::a_part)
    receive(slot, index, header, std::move(parts));
}

/// Looks for the message that step `index` receives; where ranks take turns, once in each of a few. Of which a part has come is posted, so to speak: it may be
/// done when nothing more is found, if another thread has looked meanwhile.
Stream::Found Operation::collect(const Slot& slot, std::uint32_t index, const FrameHeader& header,
                                 std::span<const transport::MutablePart> parts) {
  if (parts.size() > 1) return Stream::Found::something_else;
  const transport::MutablePart into = parts.empty() ? transport::MutablePart{} : parts.front();
  bool begun = false;
  for (int turns = request_.turns != nullptr ? kTurns : 0;; turns--) {
    const Stream::Found found = ground_.messenger->collect(ground_.group, plan().steps[index].peer, header, into,
                                                           &slot.state[index], request_.looks);
    if (found == Stream::Found::all) return found;
    begun |= found == Stream::Found::a_part;
    const bool over = found == Stream::Found::something_else || turns == 0 || !request_.turns->give_way();
    if (over) return begun ? Stream::Found::a_part : found;
  }
}

void Operation::receive(Slot& slot, std::uint32_t index, const FrameHeader& header,
                        std::vector<transport::MutablePart> parts) {
  const Step& step = plan().steps[index];
  Sink into;
  into.flag = &slot.state[index];
  if (const std::int32_t sum = header.length > 0 ? folded_into(slot, index) : -1; sum >= 0) {
    into.fold = fold(slot, plan().steps[sum], plan().dst(step)[0]);
    slot.state[sum].store(kFolded, std::memory_order_relaxed);
  } else {
    into.parts = std::move(parts);
  }
  ground_.messenger->receive(ground_.group, step.peer, header, std::move(into));
}

/// The reduce that can be done as the recv `index` comes, or -1.
std::int32_t Operation::folded_into(const Slot& slot, std::uint32_t index) const {
  if (!folds_) return -1;
  const Folding& folding = bound_->compiled->foldings[index];
  const bool free = std::ranges::all_of(folding.after, [&](std::uint32_t earlier) { return passed(slot, earlier); });
  return free ? folding.reduce : -1;
}

/// The step `sum` on this slice, for which `arrived` is on its way.
std::shared_ptr<const Fold> Operation::fold(const Slot& slot, const Step& sum, const Ref& arrived) const {
  auto fold = std::make_shared<Fold>();
  fold->what = reduction(sum);
  for (const Ref& ref : plan().dst(sum)) fold->results.push_back(part(slot, ref, ref.first).data);
  for (const Ref& ref : plan().src(sum))
    fold->operands.push_back(ref == arrived ? nullptr : part(slot, ref, ref.first).data);
  return fold;
}

}  // namespace unisono::engine
