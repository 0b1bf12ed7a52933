#include "simulate/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace unisono::simulate {

namespace {

using plan::OpCode;

/// Bounds of what is built, so that it ends within seconds and a few GiB.
constexpr std::int64_t kMostSteps = 25'000'000;    // about 100 bytes each
constexpr std::int64_t kMostWork = 8'000'000'000;  // blocks and steps that plans are written from
constexpr std::int64_t kCompareAll = 50'000'000;   // likewise: so much is compared rank by rank, of more a sample

/// What it costs to write a plan down.
std::int64_t work_of(const plan::Plan& p) {
  return static_cast<std::int64_t>(p.in_extent.size() + p.out_extent.size() + p.scratch_extent.size() + p.steps.size());
}

/// The shifts of hosts that may be a symmetry: so many ranks on every host, in order; 0 when hosts are not alike.
std::int32_t ranks_per_host(const plan::Shape& shape, std::int32_t hosts) {
  if (shape.ranks % hosts != 0) return 0;
  const std::int32_t each = shape.ranks / hosts;
  for (std::int32_t q = 0; q < shape.ranks; q++)
    if (shape.hosts[static_cast<std::size_t>(q)] != q / each) return 0;
  return each;
}

class Builder {
 public:
  Builder(const plan::Algorithm& algorithm, const plan::Shape& shape) : algorithm_(algorithm) {
    world_.shape = shape;
    world_.shape.rank = 0;
    world_.hosts = shape.hosts.empty() ? 1 : *std::max_element(shape.hosts.begin(), shape.hosts.end()) + 1;
  }

  Result<World> run() && {
    UNISONO_TRY(check_size());
    const std::int32_t each = ranks_per_host(world_.shape, world_.hosts);
    world_.classes = world_.shape.ranks;
    if (each > 0 && world_.hosts > 2 && !rooted(algorithm_.collective)) UNISONO_TRY(find_symmetry(each));
    if (world_.copies == 1) UNISONO_TRY(write_all());
    UNISONO_TRY(connect());
    return std::move(world_);
  }

 private:
  plan::Plan plan_of(std::int32_t rank) const {
    plan::Shape shape{world_.shape.ranks, 0, world_.shape.root, {}};
    shape.rank = rank;
    shape.nodes = world_.shape.nodes;
    if (algorithm_.place == plan::Place::several_hosts) shape.hosts = world_.shape.hosts;  // others do not look at it
    return algorithm_.build(shape);
  }

  Status check_size() const {
    const std::int64_t n = world_.shape.ranks;
    if (algorithm_.collective == Collective::all_to_all && n > 46340)
      return Status::invalid(fmt::format("all_to_all names {} blocks, more than the 2^31 that a plan can", n * n));
    if (plan::needs_one_host(algorithm_.place) && n > 1024)
      return Status::invalid(fmt::format("{} ranks on one host: at most 1024 are simulated", n));
    return {};
  }

  /// Rank 0's and each other class's program, if the other hosts' ranks have the same.
  Status find_symmetry(std::int32_t each) {
    const std::int32_t n = world_.shape.ranks;
    std::vector<Program> programs;
    std::int64_t steps = 0, work = 0;
    for (std::int32_t c = 0; c < each; c++) {
      if (steps > kMostSteps) return too_large(steps / c * n);
      const plan::Plan plan = plan_of(c);
      work += work_of(plan);
      steps += static_cast<std::int64_t>(plan.steps.size());
      programs.push_back(simplify(plan));
    }
    const bool all = work * world_.hosts <= kCompareAll;
    for (std::int32_t q = each; q < n; q = next_to_compare(q, each, all)) {
      const Program other = shifted(simplify(plan_of(q)), q / each, each);
      const Program& model = programs[static_cast<std::size_t>(q % each)];
      world_.compared++;
      if (other.lines != model.lines || other.needs != model.needs) return {};
    }
    world_.classes = each;
    world_.copies = world_.hosts;
    for (const Program& program : programs) append(program);
    return {};
  }

  /// All ranks, or the first and last rank of the second, the middle and the last host.
  std::int32_t next_to_compare(std::int32_t q, std::int32_t each, bool all) const {
    if (all) return q + 1;
    const std::int32_t host = q / each, hosts = world_.hosts, place = q % each;
    if (place + 1 < each) return host * each + each - 1;
    const std::int32_t next = host < hosts / 2 ? hosts / 2 : host < hosts - 1 ? hosts - 1 : hosts;
    return next * each;
  }

  /// Peers as ranks on the host so many hosts further on, so that the programs of a class are equal.
  Program shifted(Program program, std::int32_t host, std::int32_t each) const {
    const std::int32_t n = world_.shape.ranks;
    for (Line& line : program.lines)
      if (line.peer >= 0) line.peer = (line.peer - host * each + n) % n;
    return program;
  }

  Status write_all() {
    const std::int32_t n = world_.shape.ranks;
    std::int64_t steps = 0,
                 work = 0;  // of all but rank 0: it is the root of most trees and tells nothing about the others
    for (std::int32_t r = 0; r < n; r++) {
      const plan::Plan plan = plan_of(r);
      if (r > 0) work += work_of(plan);
      if (r > 0) steps += static_cast<std::int64_t>(plan.steps.size());
      const std::int64_t expected = r < 64 ? steps : steps / r * n;
      const std::int64_t effort = r < 64 ? work : work / r * n;
      if (expected > kMostSteps) return too_large(expected);
      if (effort > kMostWork)
        return Status::invalid(
            fmt::format("its {} plans have about {:.1e} blocks, at most {:.0e} are written down: simulate fewer ranks",
                        n, static_cast<double>(effort), static_cast<double>(kMostWork)));
      append(simplify(plan));
    }
    return {};
  }

  static Status too_large(std::int64_t steps) {
    return Status::invalid(
        fmt::format("its plans have about {:.1e} steps, at most {:.1e} are kept: simulate fewer ranks",
                    static_cast<double>(steps), static_cast<double>(kMostSteps)));
  }

  /// The program of the next class.
  void append(const Program& program) {
    const auto base = static_cast<std::uint32_t>(world_.ops.size());
    world_.first.push_back(base);
    std::vector<std::uint32_t> count(program.lines.size() + 1, 0);
    for (const std::uint32_t need : program.needs) count[need]++;
    std::uint32_t at = static_cast<std::uint32_t>(world_.successors.size());
    world_.successors.resize(at + program.needs.size());
    for (std::size_t i = 0; i < program.lines.size(); i++) {
      const Line& line = program.lines[i];
      Op op{line.op, line.blocks, line.additions, line.needs_end - line.needs, at, at, 0, 0, 0, 0};
      op.touches = static_cast<std::uint32_t>(world_.touches.size());
      world_.touches.insert(world_.touches.end(), program.touches.begin() + line.touches,
                            program.touches.begin() + line.touches_end);
      op.touches_end = static_cast<std::uint32_t>(world_.touches.size());
      if (line.op == OpCode::recv || line.op == OpCode::wait) op.needs++;
      at += count[i];
      world_.ops.push_back(op);
      if (line.op == OpCode::send || line.op == OpCode::recv || line.op == OpCode::signal || line.op == OpCode::wait)
        ends_.push_back({base + static_cast<std::uint32_t>(i), line.channel, line.peer});
    }
    for (std::uint32_t i = 0; i < program.lines.size(); i++)
      for (std::uint32_t k = program.lines[i].needs; k < program.lines[i].needs_end; k++)
        world_.successors[world_.ops[base + program.needs[k]].successors_end++] = i;
    classes_of_ends_.push_back(ends_.size());
  }

  /// Finds for each send its receive, and for each signal its waits.
  Status connect() {
    world_.first.push_back(static_cast<std::uint32_t>(world_.ops.size()));
    describe(plan_of(0));
    collect();
    std::size_t e = 0;
    for (std::int32_t c = 0; c < world_.classes; c++) {
      std::unordered_map<std::uint64_t, std::uint32_t> sent;
      for (; e < classes_of_ends_[static_cast<std::size_t>(c)]; e++) {
        Op& op = world_.ops[ends_[e].op];
        op.targets = static_cast<std::uint32_t>(world_.targets.size());
        if (op.op == OpCode::send) UNISONO_TRY(aim(c, ends_[e], sent));
        if (op.op == OpCode::signal)
          for (const Target& waiter : waiters_[key(c, ends_[e].channel)]) world_.targets.push_back(waiter);
        op.targets_end = static_cast<std::uint32_t>(world_.targets.size());
      }
    }
    return {};
  }

  void describe(const plan::Plan& plan) {
    world_.staged = plan.staged;
    world_.shared = plan.shared;
    const Collective c = plan.collective;
    const bool vector = c == Collective::all_reduce || c == Collective::reduce || c == Collective::broadcast;
    world_.blocks = c == Collective::barrier ? 0 : vector ? plan.extents : plan.shape.ranks;
  }

  struct End {
    std::uint32_t op;
    std::uint16_t channel;
    std::int32_t peer;
  };

  static std::uint64_t key(std::uint64_t a, std::uint64_t b) { return (a << 32) | b; }
  /// The class that rank `peer` belongs to, seen from one of the first host, and how many hosts away it is. Without symmetry: the rank.
  Target place_of(std::int32_t peer) const {
    const std::int32_t n = world_.shape.ranks, q = (peer % n + n) % n;
    return {q % world_.classes, q / world_.classes, 0};
  }

  /// Receives by who sends: class `c` receives from rank `peer`, so that rank sends to class c, as many hosts back.
  void collect() {
    std::size_t e = 0;
    for (std::int32_t c = 0; c < world_.classes; c++) {
      const std::uint32_t base = world_.first[static_cast<std::size_t>(c)];
      for (; e < classes_of_ends_[static_cast<std::size_t>(c)]; e++) {
        const OpCode op = world_.ops[ends_[e].op].op;
        if (op == OpCode::recv) receives_[c_and_peer(c, ends_[e].peer)].push_back(ends_[e].op - base);
        if (op == OpCode::wait) waiters_[key(ends_[e].peer, ends_[e].channel)].push_back({c, 0, ends_[e].op - base});
      }
    }
  }

  /// One number for "class c receives from that rank".
  std::uint64_t c_and_peer(std::int32_t c, std::int32_t peer) const {
    const std::int32_t n = world_.shape.ranks;
    return key(c, (peer % n + n) % n);
  }

  /// The k-th send of class c to a rank meets that rank's k-th receive from it.
  Status aim(std::int32_t c, const End& end, std::unordered_map<std::uint64_t, std::uint32_t>& sent) {
    Target target = place_of(end.peer);
    const std::int32_t seen_from_there = c - target.shift * world_.classes;
    const auto found = receives_.find(c_and_peer(target.to, seen_from_there));
    const std::uint32_t number = sent[key(0, static_cast<std::uint32_t>(end.peer))]++;
    if (found == receives_.end() || number >= found->second.size())
      return Status::internal(
          fmt::format("rank {} of {} sends to {}, which receives nothing", c, algorithm_.name, end.peer));
    target.op = found->second[number];
    world_.targets.push_back(target);
    world_.messages += world_.copies;
    return {};
  }

  const plan::Algorithm& algorithm_;
  World world_;
  std::vector<End> ends_;  ///< steps with another end, class by class
  std::vector<std::size_t> classes_of_ends_;
  std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> receives_;
  std::unordered_map<std::uint64_t, std::vector<Target>> waiters_;
};

}  // namespace

Result<World> build_world(const plan::Algorithm& algorithm, const plan::Shape& shape) {
  return Builder(algorithm, shape).run();
}

}  // namespace unisono::simulate
