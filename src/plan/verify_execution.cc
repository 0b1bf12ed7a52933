#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "plan/print.h"
#include "plan/stage_clocks.h"
#include "plan/verify_internal.h"

/// Runs all ranks' plans on symbolic values, every message a rendezvous.
namespace unisono::plan::verification {

namespace {

class Execution {
 public:
  Execution(const Subject& subject, const Links& links, bool in_place, Findings& findings)
      : subject_(subject),
        links_(links),
        in_place_(in_place),
        findings_(findings),
        cells_(subject, in_place),
        values_(subject.ranks()),
        at_(cells_.count, kUndefined),
        pending_(links.pending),
        posted_(subject.steps(), false),
        done_(subject.steps(), false),
        clocks_(subject, links, cells_.count) {
    const auto n = static_cast<std::size_t>(subject.ranks());
    channels_ = subject.plan(0).channels;
    signals_.assign(n * channels_, kNone);
    waiters_.resize(n * channels_);
    if (is_barrier()) heard_.assign(subject.steps() * n, false);
  }

  void run() {
    fill_inputs();
    for (GlobalStep g = 0; g < subject_.steps(); g++) {
      if (pending_[g] == 0) ready_.push_back(g);
    }
    while (!ready_.empty() && !findings_.full()) {
      const GlobalStep g = ready_.back();
      ready_.pop_back();
      start(g);
    }
    if (findings_.full()) return;
    if (completed_ != subject_.steps()) {
      report_deadlock(subject_, links_, {pending_, done_, completed_}, findings_);
    } else {
      check_results();
    }
  }

 private:
  bool is_barrier() const { return subject_.plan(0).collective == Collective::barrier; }
  void fault(Fault kind, GlobalStep g, const std::string& what) {
    findings_.add(kind, subject_.rank_of(g), subject_.local(g),
                  fmt::format("{}: {}{}", subject_.name(g), what, mode()));
  }
  const char* mode() const { return in_place_ ? " (in place)" : ""; }

  void fill_inputs() {
    for (std::int32_t r = 0; r < subject_.ranks(); r++) {
      const auto blocks = static_cast<std::int32_t>(subject_.plan(r).in_extent.size());
      first_leaf_.push_back(kUndefined);
      for (std::int32_t b = 0; b < blocks; b++) {
        const Value leaf = values_.leaf(r, tag_of(b, subject_.plan(r).in_extent));
        if (b == 0) first_leaf_.back() = leaf;
        at_[cells_.of(r, {Space::in, -1, b, 1}, 0)] = leaf;
      }
    }
  }

  // Slices of one block are different blocks.
  std::int32_t tag_of(std::int32_t block, const std::vector<std::int32_t>& extents) const {
    const std::int32_t slice = block / per_slice(extents);
    return slice * subject_.plan(0).extents + extents[static_cast<std::size_t>(block)];
  }
  std::int32_t per_slice(const std::vector<std::int32_t>& extents) const {
    return static_cast<std::int32_t>(extents.size()) / subject_.slices;
  }

  void start(GlobalStep g) {
    const Step& step = subject_.step(g);
    switch (step.op) {
      case OpCode::send:
      case OpCode::recv: {
        posted_[g] = true;
        const GlobalStep other = links_.counterpart[g];
        if (other == kNone || !posted_[other]) return;
        step.op == OpCode::send ? transfer(g, other) : transfer(other, g);
        return;
      }
      case OpCode::wait: {
        const std::size_t flag = flag_of(step.peer, step.channel);
        if (signals_[flag] == kNone) {
          waiters_[flag].push_back(g);
        } else {
          pass(signals_[flag], g);
        }
        return;
      }
      case OpCode::signal: {
        const std::size_t flag = flag_of(subject_.rank_of(g), step.channel);
        complete(g);
        signals_[flag] = g;
        for (const GlobalStep waiter : waiters_[flag]) pass(g, waiter);
        waiters_[flag].clear();
        return;
      }
      case OpCode::copy:
      case OpCode::put:
      case OpCode::get:
      case OpCode::reduce:
        compute(g, step);
        return;
    }
  }

  std::size_t flag_of(std::int32_t rank, std::uint16_t channel) const {
    return static_cast<std::size_t>(rank) * channels_ + channel;
  }

  void pass(GlobalStep signal, GlobalStep wait) {
    if (is_barrier()) hear(signal, wait);
    clocks_.join(wait, signal);
    complete(wait);
  }

  void transfer(GlobalStep send, GlobalStep recv) {
    if (is_barrier()) hear(send, recv);
    clocks_.join(recv, send);
    std::vector<Value>& message = buffer_;
    message.clear();
    const std::int32_t from = subject_.rank_of(send), to = subject_.rank_of(recv);
    for (const Ref& ref : subject_.plan(from).src(subject_.step(send))) {
      for (std::int32_t i = 0; i < ref.count; i++) message.push_back(read(send, from, ref, i));
    }
    std::size_t next = 0;
    for (const Ref& ref : subject_.plan(to).dst(subject_.step(recv))) {
      for (std::int32_t i = 0; i < ref.count && next < message.size(); i++) write(recv, to, ref, i, message[next++]);
    }
    complete(send);
    complete(recv);
  }

  void compute(GlobalStep g, const Step& step) {
    const std::int32_t rank = subject_.rank_of(g);
    const Plan& plan = subject_.plan(rank);
    const auto src = plan.src(step), dst = plan.dst(step);
    clocks_.enter(g);
    watched_ = shared() && !copies_onto_itself(rank, step);
    for (std::int32_t i = 0; i < dst.front().count; i++) {
      buffer_.clear();
      for (const Ref& ref : src) buffer_.push_back(read(g, rank, ref, i));
      const Value value = step.op == OpCode::reduce ? sum(g, step) : buffer_.front();
      for (const Ref& ref : dst) write(g, rank, ref, i, value);
    }
    complete(g);
  }

  bool shared() const { return subject_.plan(0).shared; }

  // In place, such a copy does nothing.
  bool copies_onto_itself(std::int32_t rank, const Step& step) const {
    if (step.op != OpCode::copy) return false;
    const Ref& to = subject_.plan(rank).dst(step).front();
    const Ref& from = subject_.plan(rank).src(step).front();
    for (std::int32_t i = 0; i < to.count; i++) {
      if (cells_.of(rank, to, i) != cells_.of(rank, from, i)) return false;
    }
    return true;
  }

  // Whether others may touch the block too.
  bool common(const Ref& ref) const { return ref.space == Space::stage || (watched_ && ref.space != Space::scratch); }

  Value sum(GlobalStep g, const Step& step) {
    if (std::ranges::find(buffer_, kUndefined) != buffer_.end()) return kUndefined;  // reported by read()
    const Value value = values_.reduce(buffer_, step.final);
    if (values_.doubled(value)) {
      if (const auto ranks = values_.shared(buffer_); !ranks.empty()) {
        fault(Fault::doubled_contribution, g,
              fmt::format("adds what rank {} contributed twice", fmt::join(ranks, ", ")));
      }
    }
    if (step.final && !values_.complete(value)) {
      fault(Fault::final_reduce, g,
            fmt::format("is final, but rank {} is not in the sum yet", fmt::join(values_.missing(value), ", ")));
    }
    return value;
  }

  Value read(GlobalStep g, std::int32_t rank, const Ref& ref, std::int32_t offset) {
    const std::uint32_t cell = cells_.of(rank, ref, offset);
    if (common(ref)) note_race(clocks_.read(g, cell), g, ref, offset);
    if (at_[cell] == kUndefined)
      fault(Fault::undefined_read, g, fmt::format("reads {} before anything is there", block(ref, offset)));
    return at_[cell];
  }

  void write(GlobalStep g, std::int32_t rank, const Ref& ref, std::int32_t offset, Value value) {
    const std::uint32_t cell = cells_.of(rank, ref, offset);
    if (common(ref)) note_race(clocks_.write(g, cell), g, ref, offset);
    at_[cell] = value;
  }

  void note_race(GlobalStep other, GlobalStep g, const Ref& ref, std::int32_t offset) {
    if (other == kNone) return;
    fault(Fault::race, g,
          fmt::format("touches {} as {} does, and no signal orders them", block(ref, offset), subject_.name(other)));
  }

  static std::string block(Ref ref, std::int32_t offset) {
    ref.first += offset;
    ref.count = 1;
    return to_text(ref);
  }

  void complete(GlobalStep g) {
    done_[g] = true;
    completed_++;
    clocks_.leave(g);
    for (std::uint32_t i = links_.first_successor[g]; i < links_.first_successor[g + 1]; i++) {
      const GlobalStep next = links_.successors[i];
      if (is_barrier()) hear(g, next);
      clocks_.join(next, g);
      if (--pending_[next] == 0) ready_.push_back(next);
    }
  }

  // ---- barrier: which ranks' arrival a step comes after
  void hear(GlobalStep from, GlobalStep to) {
    const auto n = static_cast<std::size_t>(subject_.ranks());
    heard_[from * n + static_cast<std::size_t>(subject_.rank_of(from))] = true;
    for (std::size_t r = 0; r < n; r++) {
      if (heard_[from * n + r]) heard_[to * n + r] = true;
    }
  }

  void check_barrier(std::int32_t rank) {
    const auto n = static_cast<std::size_t>(subject_.ranks());
    for (std::size_t q = 0; q < n; q++) {
      bool known = q == static_cast<std::size_t>(rank);
      for (std::uint32_t i = 0; i < subject_.plan(rank).steps.size(); i++)
        known = known || heard_[subject_.global(rank, i) * n + q];
      if (!known) {
        findings_.add(Fault::wrong_result, rank, -1,
                      fmt::format("rank {} leaves the barrier without knowing that rank {} came", rank, q));
      }
    }
  }

  // ---- results
  void check_results() {
    for (std::int32_t r = 0; r < subject_.ranks(); r++) {
      if (is_barrier()) {
        check_barrier(r);
        continue;
      }
      const auto blocks = static_cast<std::int32_t>(subject_.plan(r).out_extent.size());
      for (std::int32_t b = 0; b < blocks && !findings_.full(); b++) check_result(r, b);
      if (!shared()) continue;
      check_end(r, Space::in, subject_.plan(r).in_extent.size());
      check_end(r, Space::out, subject_.plan(r).out_extent.size());
    }
  }

  // The caller has its buffers back when its rank's last step is done.
  void check_end(std::int32_t rank, Space space, std::size_t blocks) {
    for (std::int32_t b = 0; b < static_cast<std::int32_t>(blocks) && !findings_.full(); b++) {
      const GlobalStep late = clocks_.outlasts(cells_.of(rank, {space, -1, b, 1}, 0), rank);
      if (late == kNone) continue;
      findings_.add(Fault::early_end, rank, -1,
                    fmt::format("rank {} ends, and its caller has {} back, while {} may still touch it{}", rank,
                                block({space, -1, b, 1}, 0), subject_.name(late), mode()));
    }
  }

  void check_result(std::int32_t rank, std::int32_t b) {
    const Value value = at_[cells_.of(rank, {Space::out, -1, b, 1}, 0)];
    const auto wrong = [&](Fault kind, const std::string& what) {
      findings_.add(kind, rank, -1, fmt::format("rank {} out[{}]: {}{}", rank, b, what, mode()));
    };
    if (value == kUndefined) return wrong(Fault::wrong_result, "was never written");
    const Plan& plan = subject_.plan(rank);
    if (reduces(plan.collective) && subject_.ranks() > 1) return check_sum(rank, b, value, wrong);
    if (value != expected_leaf(rank, b)) wrong(Fault::wrong_result, "holds the wrong contribution");
  }

  template <class Wrong>
  void check_sum(std::int32_t rank, std::int32_t b, Value value, const Wrong& wrong) {
    const Plan& plan = subject_.plan(rank);
    if (!values_.complete(value)) {
      return wrong(Fault::wrong_result,
                   fmt::format("lacks the contribution of rank {}", fmt::join(values_.missing(value), ", ")));
    }
    const std::int32_t tag = tag_of(b, plan.out_extent);
    if (values_.tag(value) != tag) return wrong(Fault::wrong_result, "has contributions to another block");
    if (values_.doubled(value)) wrong(Fault::doubled_contribution, "has a contribution twice");
    if (values_.finals(value) != 1 || !values_.is_final(value)) {
      wrong(Fault::final_reduce,
            fmt::format("passed {} final reduces; the last one alone must be final", values_.finals(value)));
    }
    tree_of_block_.resize(static_cast<std::size_t>(plan.extents) * static_cast<std::size_t>(subject_.slices),
                          kUndefined);
    Value& tree = tree_of_block_[static_cast<std::size_t>(tag)];
    if (tree == kUndefined) tree = value;
    if (tree != value) wrong(Fault::unequal_trees, "was reduced in another order than on a lower rank");
  }

  Value expected_leaf(std::int32_t rank, std::int32_t b) const {
    const Plan& plan = subject_.plan(rank);
    const std::int32_t slice = b / per_slice(plan.out_extent), block = b % per_slice(plan.out_extent);
    std::int32_t origin = plan.shape.root;
    if (plan.collective == Collective::all_gather || plan.collective == Collective::gather ||
        plan.collective == Collective::all_to_all) {
      origin = block;
    } else if (reduces(plan.collective)) {
      origin = 0;  // of one rank
    }
    const auto& in = subject_.plan(origin).in_extent;
    for (std::int32_t i = slice * per_slice(in); i < (slice + 1) * per_slice(in); i++) {
      if (in[static_cast<std::size_t>(i)] == plan.out_extent[static_cast<std::size_t>(b)]) {
        return first_leaf_[static_cast<std::size_t>(origin)] + static_cast<Value>(i);
      }
    }
    return kUndefined;
  }

  const Subject& subject_;
  const Links& links_;
  bool in_place_;
  Findings& findings_;
  Cells cells_;
  Values values_;
  std::vector<Value> at_;          ///< by cell
  std::vector<Value> first_leaf_;  ///< by rank: the value of in[0]; in[b] follows b later
  std::vector<std::uint32_t> pending_;
  std::vector<bool> posted_, done_;
  StageClocks clocks_;
  std::size_t channels_ = 0;
  std::vector<GlobalStep> signals_;  ///< by rank and channel
  std::vector<std::vector<GlobalStep>> waiters_;
  std::vector<bool> heard_;
  std::vector<GlobalStep> ready_;
  std::vector<Value> buffer_;
  std::vector<Value> tree_of_block_;
  std::uint32_t completed_ = 0;
  bool watched_ = false;  ///< the step that runs touches buffers that others may touch
};

}  // namespace

void execute(const Subject& subject, const Links& links, bool in_place, Findings& findings) {
  Execution(subject, links, in_place, findings).run();
}

}  // namespace unisono::plan::verification
