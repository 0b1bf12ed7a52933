#include <fmt/format.h>

#include <algorithm>

#include "plan/print.h"
#include "plan/verify_internal.h"

namespace unisono::plan::verification {

namespace {

class StructureCheck {
 public:
  StructureCheck(const Subject& subject, Findings& findings, std::int32_t rank)
      : subject_(subject), findings_(findings), plan_(subject.plan(rank)), rank_(rank), lanes_(plan_.lanes) {}

  void run() {
    check_layout();
    std::vector<std::int32_t> signalled(plan_.channels, 0);
    for (std::uint32_t i = 0; i < plan_.steps.size() && !findings_.full(); i++) {
      step_ = i;
      const Step& step = plan_.steps[i];
      if (!in_range(step)) continue;
      check_shape(step);
      if (step.op == OpCode::signal) signalled[step.channel]++;
    }
    for (std::size_t c = 0; c < signalled.size(); c++) {
      if (signalled[c] == 1) continue;
      findings_.add(Fault::signal, rank_, -1,
                    fmt::format("rank {} signals channel {} {} times instead of once", rank_, c, signalled[c]));
    }
  }

 private:
  void fault(Fault kind, std::string_view what) {
    findings_.add(kind, rank_, step_, fmt::format("{}: {}", subject_.name(subject_.global(rank_, step_)), what));
  }
  // For steps whose text cannot be printed because an index is out of range.
  bool malformed(std::string_view what) {
    findings_.add(Fault::malformed, rank_, step_,
                  fmt::format("rank {} step {} ({}): {}", rank_, step_, name_of(plan_.steps[step_].op), what));
    return false;
  }

  void check_layout() {
    const Plan& first = subject_.plan(0);
    if (plan_.collective != first.collective || plan_.shape.root != first.shape.root || plan_.shape.rank != rank_ ||
        plan_.shape.ranks != subject_.ranks() || plan_.extents != first.extents) {
      findings_.add(Fault::layout, rank_, -1,
                    fmt::format("rank {}'s plan is for another shape or collective than rank 0's", rank_));
    }
    const Layout expected = layout_of(plan_.collective, plan_.shape, plan_.extents);
    if (!repeats(plan_.in_extent, expected.in) || !repeats(plan_.out_extent, expected.out)) {
      findings_.add(
          Fault::layout, rank_, -1,
          fmt::format("rank {}'s input or output blocks are not those of {}", rank_, name_of(plan_.collective)));
    }
    if (plan_.shared != first.shared || plan_.exposed != first.exposed ||
        plan_.exposed.size() != (plan_.shared ? static_cast<std::size_t>(subject_.ranks()) : 0)) {
      findings_.add(Fault::layout, rank_, -1,
                    fmt::format("rank {} and rank 0 disagree on which buffers are exposed", rank_));
    }
    if (plan_.stage_extent.size() != first.stage_extent.size() || plan_.channels != first.channels ||
        plan_.staged != first.staged) {
      findings_.add(Fault::signal, rank_, -1,
                    fmt::format("rank {} has {} stage blocks and {} channels, rank 0 has {} and {}", rank_,
                                plan_.stage_extent.size(), plan_.channels, first.stage_extent.size(), first.channels));
    }
    for (const Space space : {Space::in, Space::out, Space::scratch, Space::stage}) {
      for (const std::int32_t e : plan_.extents_of(space)) {
        if (e >= 0 && e < plan_.extents) continue;
        findings_.add(
            Fault::malformed, rank_, -1,
            fmt::format("rank {}: a block of {} has extent {} of {}", rank_, name_of(space), e, plan_.extents));
      }
    }
  }

  bool repeats(const std::vector<std::int32_t>& blocks, const std::vector<std::int32_t>& once) const {
    if (blocks.size() != once.size() * static_cast<std::size_t>(subject_.slices)) return false;
    for (std::size_t i = 0; i < blocks.size(); i++) {
      if (blocks[i] != once[i % once.size()]) return false;
    }
    return true;
  }

  bool good(const Ref& ref) const {
    if (ref.first < 0 || ref.count < 1) return false;
    if (has_owner(ref.space) && (ref.rank < 0 || ref.rank >= subject_.ranks())) return false;
    if (is_peer(ref.space) && ref.rank == rank_) return false;
    return ref.first + ref.count <= static_cast<std::int32_t>(extents(ref).size());
  }

  // Of the space that `ref` names, at its owner.
  std::span<const std::int32_t> extents(const Ref& ref) const {
    const Plan& owner = has_owner(ref.space) ? subject_.plan(ref.rank) : plan_;
    if (ref.space == Space::peer_in) return owner.in_extent;
    if (ref.space == Space::peer_out) return owner.out_extent;
    return owner.extents_of(ref.space);
  }

  // Whether the owner of a peer's buffer opens it.
  bool exposed(const Ref& ref) const {
    if (!is_peer(ref.space)) return true;
    const std::uint8_t bit = ref.space == Space::peer_in ? kExposesIn : kExposesOut;
    return plan_.shared && (plan_.exposed[static_cast<std::size_t>(ref.rank)] & bit) != 0;
  }

  bool in_range(const Step& step) {
    if (step.lane >= lanes_) return malformed("no such lane");
    if (std::size_t{step.src_begin} + step.src_count > plan_.refs.size() ||
        std::size_t{step.dst_begin} + step.dst_count > plan_.refs.size() ||
        std::size_t{step.dep_begin} + step.dep_count > plan_.deps.size()) {
      return malformed("operands or dependencies outside the plan");
    }
    const auto ok = [&](const Ref& ref) { return good(ref); };
    if (!std::ranges::all_of(plan_.src(step), ok) || !std::ranges::all_of(plan_.dst(step), ok)) {
      return malformed("an operand names blocks that do not exist");
    }
    for (const std::uint32_t dep : plan_.waits_for(step)) {
      if (dep >= step_) return malformed(fmt::format("waits for step {}, which is not listed before it", dep));
    }
    const bool needs_peer = step.op == OpCode::send || step.op == OpCode::recv || step.op == OpCode::wait;
    if (needs_peer && (step.peer < 0 || step.peer >= subject_.ranks() || step.peer == rank_)) {
      return malformed(fmt::format("peer {} is not another rank", step.peer));
    }
    const bool flag = step.op == OpCode::signal || step.op == OpCode::wait;
    if (flag && step.channel >= plan_.channels) return malformed(fmt::format("no channel {}", step.channel));
    return true;
  }

  void check_shape(const Step& step) {
    const auto src = plan_.src(step), dst = plan_.dst(step);
    const bool is_reduce = step.op == OpCode::reduce;
    if (step.final && !is_reduce) fault(Fault::malformed, "only a reduce can be final");
    switch (step.op) {
      case OpCode::send:
        expect(dst.empty(), "a send has no destination");
        break;
      case OpCode::recv:
        expect(src.empty(), "a recv has no source");
        break;
      case OpCode::copy:
      case OpCode::put:
      case OpCode::get:
        expect(src.size() == 1 && dst.size() == 1, "needs one source and one destination");
        break;
      case OpCode::reduce:
        expect(src.size() >= 2 && !dst.empty(), "needs at least two sources and one destination");
        check_widths(step);
        break;
      case OpCode::signal:
      case OpCode::wait:
        expect(src.empty() && dst.empty(), "has no operands");
        break;
    }
    check_spaces(step);
    if (!src.empty() && !dst.empty()) check_extents(src, dst);
  }

  // A reduce converts nothing.
  void check_widths(const Step& step) {
    std::size_t wide = 0, blocks = 0;
    for (const auto refs : {plan_.dst(step), plan_.src(step)})
      for (const Ref& ref : refs)
        for (std::int32_t b = ref.first; b < ref.first + ref.count; b++, blocks++) wide += plan_.is_wide(ref.space, b);
    expect(wide == 0 || wide == blocks, "has operands of which some are wide and some are not");
  }

  void expect(bool holds, std::string_view what) {
    if (!holds) fault(Fault::malformed, what);
  }
  void expect_exposed(const Ref& ref) {
    if (!exposed(ref)) fault(Fault::malformed, fmt::format("{} is not exposed", to_text(ref)));
  }

  void check_spaces(const Step& step) {
    for (const Ref& ref : plan_.dst(step)) {
      if (ref.space == Space::in || ref.space == Space::peer_in)
        fault(Fault::writes_input, fmt::format("writes to {}, but the input belongs to the caller", to_text(ref)));
      if (ref.space == Space::stage)
        expect(ref.rank == rank_ || returns(step, ref),
               "writes to the stage of another rank what is no sum of what lies there");
      if (step.op == OpCode::put)
        expect(ref.space == Space::stage || ref.space == Space::peer_out,
               "a put goes to the own stage or to another rank's output");
      expect_exposed(ref);
    }
    for (const Ref& ref : plan_.src(step)) {
      if (step.op == OpCode::get)
        expect(has_owner(ref.space), "a get comes from a stage or from another rank's buffer");
      if (step.op == OpCode::send) expect(!has_owner(ref.space), "a message cannot come from another's memory");
      expect_exposed(ref);
    }
    if (step.op != OpCode::recv) return;
    for (const Ref& ref : plan_.dst(step)) expect(!has_owner(ref.space), "a message cannot go to another's memory");
  }

  // Whether it puts a result back where an operand lay.
  bool returns(const Step& step, const Ref& dst) const {
    return step.op == OpCode::reduce && std::ranges::find(plan_.src(step), dst) != plan_.src(step).end();
  }

  std::int32_t extent(const Ref& ref, std::int32_t offset) const {
    return extents(ref)[static_cast<std::size_t>(ref.first) + static_cast<std::size_t>(offset)];
  }

  void check_extents(std::span<const Ref> src, std::span<const Ref> dst) {
    const Ref& model = dst.front();
    const auto same = [&](const Ref& ref) {
      for (std::int32_t i = 0; i < ref.count; i++) {
        if (extent(ref, i) != extent(model, i)) return false;
      }
      return true;
    };
    for (const auto refs : {src, dst}) {
      for (const Ref& ref : refs) {
        // What runs the plan goes block by block through all operands at once.
        if (ref.count != model.count)
          fault(Fault::malformed, fmt::format("{} and {} are not as many blocks", to_text(model), to_text(ref)));
        else if (!same(ref))
          fault(Fault::extents, fmt::format("{} and {} differ in extents", to_text(model), to_text(ref)));
      }
    }
  }

  const Subject& subject_;
  Findings& findings_;
  const Plan& plan_;
  std::int32_t rank_;
  std::uint16_t lanes_;
  std::uint32_t step_ = 0;
};

}  // namespace

void check_structure(const Subject& subject, Findings& findings) {
  for (std::int32_t r = 0; r < subject.ranks(); r++) StructureCheck(subject, findings, r).run();
}

}  // namespace unisono::plan::verification
