#include "engine/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "engine/messenger.h"

namespace unisono::engine {

using plan::OpCode;
using plan::Ref;
using plan::Space;
using plan::Step;

Operation::Operation(Request request, const Ground& ground, std::uint64_t sequence)
    : Running(sequence), request_(std::move(request)), ground_(ground), stage_(ground.size), arrived_(ground.size) {
  const plan::Plan& plan = request_.compiled->plan;
  const std::int64_t largest = request_.binding.largest_block;
  slice_bytes_ = plan.staged ? ground_.domain->slice_bytes() : ground_.network_slice;
  slices_ = std::max<std::int64_t>(1, divide_up(largest, slice_bytes_));
  scratch_stride_ = divide_up(std::min(slice_bytes_, largest), 64) * 64;
  slots_.resize(static_cast<std::size_t>(std::min<std::int64_t>(slices_, kWindow)));
  for (Slot& slot : slots_) {
    slot.position.assign(plan.lanes, 0);
    slot.state = std::make_unique<std::atomic<std::uint8_t>[]>(plan.steps.size());
  }
  const auto scratch = static_cast<std::size_t>(scratch_stride_) * plan.scratch_extent.size() * slots_.size();
  if (ground_.scratch && ground_.scratch->size() < scratch) ground_.scratch->resize(scratch);
}

bool Operation::advance() {
  if (done_) return false;
  bool moved = false;
  if (!begun_) {
    if (!begin()) return false;
    moved = true;
  }
  moved |= start_slices();
  // Oldest first: signals and completions happen in the order of slices, which is what peers count on.
  for (std::int64_t k = retired_; k < next_slice_ && !done_; k++) moved |= advance_slot(slots_[k % slots_.size()]);
  if (!done_) moved |= retire();
  if (!moved && !done_ &&
      ground_.domain != nullptr)  // two ranks that wait for each other in different calls send nothing
    for (int q = 0; q < ground_.size && !done_; q++) peer_arrived(q);
  return moved;
}

/// Announce the operation. False while a peer is so far behind that it may still read the line that this would overwrite.
bool Operation::begin() {
  const plan::Plan& plan = request_.compiled->plan;
  if (ground_.domain != nullptr) {
    Domain& domain = *ground_.domain;
    for (int q = 0; q < ground_.size; q++)
      if (q != ground_.rank && !domain.may_announce(q, sequence_)) return false;
    StagePayload payload;
    if (plan.staged && !plan.stage_extent.empty()) {
      auto stage = domain.own_stage();
      if (!stage) {
        fail(stage.status());
        return true;
      }
      stage_[ground_.rank] = *stage;
      payload.offset = domain.own_stage_offset();
    }
    domain.announce(sequence_, request_.signature, std::as_bytes(std::span(&payload, 1)));
    base_ = domain.slices;
  }
  arrived_[ground_.rank] = true;
  if (ground_.messenger != nullptr && !plan.staged)
    ground_.messenger->begin(ground_.group, sequence_, request_.signature);
  begun_ = true;
  return true;
}

bool Operation::start_slices() {
  const plan::Plan& plan = request_.compiled->plan;
  bool moved = false;
  while (!done_ && next_slice_ < slices_ && next_slice_ - retired_ < static_cast<std::int64_t>(slots_.size())) {
    const std::uint64_t global = base_ + static_cast<std::uint64_t>(next_slice_);
    if (plan.staged && global >= kWindow)  // the slot is free once everybody is done with the slice that had it before
      for (int q = 0; q < ground_.size; q++)
        if (!ground_.domain->done(q, global - kWindow + 1)) return moved;
    Slot& slot = slots_[next_slice_ % slots_.size()];
    slot.slice = next_slice_++;
    slot.finished = false;
    std::fill(slot.position.begin(), slot.position.end(), 0);
    for (std::size_t i = 0; i < plan.steps.size(); i++) slot.state[i].store(kIdle, std::memory_order_relaxed);
    moved = true;
  }
  return moved;
}

bool Operation::advance_slot(Slot& slot) {
  if (slot.finished) return false;
  bool moved = false, all = true;
  for (std::size_t lane = 0; lane < slot.position.size() && !done_; lane++) {
    moved |= advance_lane(slot, lane);
    all &= slot.position[lane] == request_.compiled->lanes[lane].size();
  }
  slot.finished = all;
  return moved;
}

bool Operation::advance_lane(Slot& slot, std::size_t lane) {
  const auto& steps = request_.compiled->lanes[lane];
  const plan::Plan& plan = request_.compiled->plan;
  bool moved = false;
  while (slot.position[lane] < steps.size()) {
    const std::uint32_t index = steps[slot.position[lane]];
    std::uint8_t state = slot.state[index].load(std::memory_order_acquire);
    if (state == kIdle) {
      for (const std::uint32_t dep : plan.waits_for(plan.steps[index]))
        if (slot.state[dep].load(std::memory_order_acquire) != kDone) return moved;
      if (!run_step(slot, index) || done_) return moved;
      moved = true;
      state = slot.state[index].load(std::memory_order_acquire);
    }
    if (state != kDone) return moved;
    slot.position[lane]++;
    moved = true;
  }
  return moved;
}

bool Operation::run_step(Slot& slot, std::uint32_t index) {
  const Step& step = request_.compiled->plan.steps[index];
  switch (step.op) {
    case OpCode::wait:
      if (!run_wait(slot, step)) return false;
      break;
    case OpCode::signal:
      if (!run_signal(slot, step)) return false;
      break;
    case OpCode::copy:
    case OpCode::put:
    case OpCode::get:
      run_copy(slot, step);
      break;
    case OpCode::reduce:
      run_reduce(slot, step);
      break;
    case OpCode::send:
    case OpCode::recv:
      run_message(slot, index);
      return true;
  }
  slot.state[index].store(kDone, std::memory_order_release);
  return true;
}

/// Whether rank q has begun this operation; finds out on the way whether it calls the same thing.
bool Operation::peer_arrived(int q) {
  if (arrived_[q]) return true;
  const Line* line = ground_.domain->line(q, sequence_);
  if (line == nullptr) return false;
  if (line->signature != request_.signature) {
    fail(Discord{q, sequence_, request_.signature, line->signature});
    return false;
  }
  StagePayload payload;
  std::memcpy(&payload, line->payload, sizeof payload);
  stage_[q] = payload.offset != 0 ? ground_.domain->stage(q, payload.offset) : nullptr;
  arrived_[q] = true;
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
  const Binding& binding = request_.binding;
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
      return {ground_.scratch->data() + offset, clip(binding.scratch[block])};
    }
    case Space::stage: {
      const std::size_t offset = (global_slice(slot) % kWindow) * ground_.domain->slot_bytes() +
                                 static_cast<std::size_t>(block * slice_bytes_);
      // How much of another rank's block is used is for the other side of the step to say.
      const std::size_t bytes =
          ref.rank == ground_.rank ? clip(binding.stage[block]) : static_cast<std::size_t>(slice_bytes_);
      return {const_cast<std::byte*>(stage_[ref.rank]) + offset, bytes};
    }
  }
  return {nullptr, 0};
}

void Operation::run_copy(const Slot& slot, const Step& step) {
  const Ref& d = request_.compiled->plan.dst(step)[0];
  const Ref& s = request_.compiled->plan.src(step)[0];
  for (std::int32_t i = 0; i < d.count; i++) {
    const Part to = part(slot, d, d.first + i), from = part(slot, s, s.first + i);
    const std::size_t bytes = std::min(to.bytes, from.bytes);
    if (to.data != from.data && bytes != 0) kernels::copy(to.data, from.data, bytes);
  }
}

void Operation::run_reduce(const Slot& slot, const Step& step) {
  const plan::Plan& plan = request_.compiled->plan;
  const auto dst = plan.dst(step);
  const auto src = plan.src(step);
  std::array<const void*, 16> small;
  std::vector<const void*> large;
  std::span<const void*> inputs(small.data(), std::min(src.size(), small.size()));
  if (src.size() > small.size()) {
    large.resize(src.size());
    inputs = large;
  }
  const kernels::Reduce what{request_.dtype, request_.op,
                             step.final && request_.op == ReduceOp::avg ? ground_.size : 1};
  for (std::int32_t i = 0; i < dst[0].count; i++) {
    const Part to = part(slot, dst[0], dst[0].first + i);
    std::size_t bytes = to.bytes;
    for (std::size_t k = 0; k < src.size(); k++) {
      const Part from = part(slot, src[k], src[k].first + i);
      inputs[k] = from.data;
      bytes = std::min(bytes, from.bytes);
    }
    std::byte* second = nullptr;
    if (dst.size() > 1) {
      const Part also = part(slot, dst[1], dst[1].first + i);
      second = also.data;
      bytes = std::min(bytes, also.bytes);
    }
    if (bytes != 0) kernels::reduce(what, to.data, second, inputs, bytes / size_of(request_.dtype));
  }
}

bool Operation::retire() {
  bool moved = false;
  while (retired_ < next_slice_ && slots_[retired_ % slots_.size()].finished) {
    if (request_.compiled->plan.staged) ground_.domain->signal_done(base_ + static_cast<std::uint64_t>(retired_) + 1);
    retired_++;
    moved = true;
  }
  if (retired_ == slices_) finish();
  return moved;
}

void Operation::finish() {
  const plan::Plan& plan = request_.compiled->plan;
  if (plan.staged) {
    // Channels that this plan does not use stay in step with the others.
    const std::uint64_t end = base_ + static_cast<std::uint64_t>(slices_);
    for (int c = plan.channels; c < kChannels; c++) ground_.domain->signal(c, end);
    ground_.domain->slices = end;
  } else if (ground_.messenger != nullptr) {
    ground_.messenger->end(ground_.group, sequence_);
  }
  done_ = true;
}

std::vector<int> Operation::waiting_for() const {
  std::vector<int> missing;
  if (ground_.domain != nullptr) {
    for (int q = 0; q < ground_.size; q++)
      if (q != ground_.rank && ground_.domain->latest(q) < sequence_) missing.push_back(q);
    if (!missing.empty()) return missing;
  }
  // All have begun (or nobody can tell): those that an unfinished step of ours waits for.
  const plan::Plan& plan = request_.compiled->plan;
  std::vector<bool> named(ground_.size);
  for (std::int64_t k = retired_; k < next_slice_; k++) {
    const Slot& slot = slots_[k % slots_.size()];
    for (std::size_t lane = 0; lane < slot.position.size(); lane++) {
      if (slot.position[lane] >= request_.compiled->lanes[lane].size()) continue;
      const Step& s = plan.steps[request_.compiled->lanes[lane][slot.position[lane]]];
      if (s.peer >= 0 && (s.op == OpCode::recv || s.op == OpCode::wait || s.op == OpCode::send)) named[s.peer] = true;
    }
  }
  for (int q = 0; q < ground_.size; q++)
    if (named[q]) missing.push_back(q);
  return missing;
}

void Operation::run_message(Slot& slot, std::uint32_t index) {
  const plan::Plan& plan = request_.compiled->plan;
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
  header.ordinal = request_.compiled->ordinals[index];
  header.signature = request_.signature;
  header.length = total;
  slot.state[index].store(kPosted, std::memory_order_relaxed);
  if (sending)
    ground_.messenger->send(ground_.group, step.peer, header, parts, &slot.state[index]);
  else
    ground_.messenger->receive(ground_.group, step.peer, header, parts, &slot.state[index]);
}

}  // namespace unisono::engine
