/// Several groups of the same ranks, whose stages come from one pool a rank: in one thread, with schedules drawn from seeds.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "engine/simulated_world.h"
#include "plan/registry.h"

namespace unisono::engine::test {
namespace {

constexpr std::int64_t kSlice = 1024;

/// One rank of one group, and what it runs there.
struct Member {
  std::unique_ptr<Domain> domain;
  std::unique_ptr<Operation> operation;  ///< one for all that it runs
  std::vector<std::int64_t> data;
  std::int64_t expected = 0;
  std::uint64_t sequence = 0;
};

class SharedStages {
 public:
  SharedStages(int ranks, int groups, std::uint64_t seed)
      : random_(seed), world_(ranks, {seed}, kSlice), members_(static_cast<std::size_t>(groups)) {
    for (int r = 0; r < ranks; r++) world_.rank(r).domain.reset();  // the world's own group is not needed
    for (int r = 0; r < ranks; r++) without_groups_.push_back(segment(r).allocated());
    for (auto& group : members_) make(group);
    for (int r = 0; r < ranks; r++) before_.push_back(segment(r).allocated());
  }
  int ranks() const { return world_.size(); }
  int groups() const { return static_cast<int>(members_.size()); }
  Member& member(int g, int r) { return members_[static_cast<std::size_t>(g)][static_cast<std::size_t>(r)]; }
  int draw(int below) { return static_cast<int>(random_() % static_cast<std::uint64_t>(below)); }
  std::vector<int> order() {
    std::vector<int> list(members_.size());
    std::iota(list.begin(), list.end(), 0);
    std::shuffle(list.begin(), list.end(), random_);
    return list;
  }
  std::uint64_t stage_bytes() { return member(0, 0).domain->stage_bytes(); }
  /// Bytes of rank r's stages.
  std::uint64_t staging(int r) { return segment(r).allocated() - before_[static_cast<std::size_t>(r)]; }

  /// The next operation of group g: the same length and kind on all ranks; some are broadcasts, from which the root runs ahead.
  void start(int g, int r, bool broadcasts) {
    Member& m = member(g, r);
    m.sequence++;
    const auto draw = m.sequence * 7 + static_cast<std::uint64_t>(g) * 3;
    const bool broadcast = broadcasts && draw % 3 == 0;
    const Collective collective = broadcast ? Collective::broadcast : Collective::all_reduce;
    const char* name = broadcast       ? "staged"
                       : draw % 3 == 1 ? "staged_one_shot"
                       : draw % 2 == 0 ? "staged_two_shot"
                                       : "staged_return";
    m.data.assign((draw * 37) % 1500, value(g, r, m.sequence));
    m.expected = value(g, 0, m.sequence);
    for (int q = 1; q < ranks() && !broadcast; q++) m.expected += value(g, q, m.sequence);
    const auto prepared = std::make_shared<Prepared>();
    prepared->usual =
        bound(std::make_shared<const Compiled>(compile(plan::find_algorithm(collective, name)->build({ranks(), r, 0}))),
              {static_cast<std::int64_t>(m.data.size()), {}, {}}, DType::i64);
    prepared->dtype = DType::i64;
    prepared->signature = Signature::make({collective, DType::i64, ReduceOp::sum, 0, false, 0}, m.data.size());
    m.operation->start(
        {prepared, reinterpret_cast<const std::byte*>(m.data.data()), reinterpret_cast<std::byte*>(m.data.data())},
        m.sequence);
  }
  /// Whether it has ended; then its result is looked at.
  bool advance(int g, int r) {
    Member& m = member(g, r);
    m.operation->advance();
    if (!m.operation->done()) return false;
    EXPECT_TRUE(m.operation->status().ok()) << m.operation->status().message();
    for (const std::int64_t x : m.data)
      if (x != m.expected) {
        ADD_FAILURE() << "group " << g << ", rank " << r << ", operation " << m.sequence << ": " << x << ", not "
                      << m.expected;
        break;
      }
    return true;
  }
  /// All ranks leave all groups; then nothing may be left of them. The first question gives back
  /// stages, and tells the others so; by the second one all have said that they do not look at the
  /// control blocks any more.
  void end() {
    std::vector<Domain*> left;
    for (auto& group : members_)
      for (Member& m : group) left.push_back(m.domain.get());
    for (Domain* domain : left) domain->leave();
    for (int questions = 0; questions < 2; questions++)
      std::erase_if(left, [](Domain* domain) { return domain->reclaim({}); });
    EXPECT_TRUE(left.empty());
    for (int r = 0; r < ranks(); r++)
      EXPECT_EQ(segment(r).allocated(), without_groups_[static_cast<std::size_t>(r)]) << "rank " << r;
  }

 private:
  static std::int64_t value(int g, int r, std::uint64_t sequence) {
    return static_cast<std::int64_t>(sequence) * 1000003 + g * 1009 + r;
  }
  transport::SharedSegment& segment(int r) { return *world_.rank(r).segment; }
  void make(std::vector<Member>& group) {
    const int n = ranks();
    group.resize(static_cast<std::size_t>(n));
    for (int r = 0; r < n; r++) {
      Member& m = group[static_cast<std::size_t>(r)];
      m.domain = Domain::create(*world_.rank(r).stages, r, n, kSlice).value();
      Ground ground = world_.ground(r);
      ground.domain = m.domain.get();
      m.operation = std::make_unique<Operation>(ground);
    }
    for (int r = 0; r < n; r++)
      for (int q = 0; q < n; q++) {
        if (q == r) continue;
        Messenger& messenger = *world_.rank(r).messenger;
        const int peer = messenger.add_peer({world_.rank(q).id, "", 0, 0, ""});
        const Status s = group[static_cast<std::size_t>(r)].domain->attach(
            q, messenger.shared(peer), group[static_cast<std::size_t>(q)].domain->control_offset());
        if (!s.ok()) throw std::runtime_error(s.message());
      }
  }

  std::mt19937_64 random_;
  SimulatedWorld world_;
  std::vector<std::vector<Member>> members_;  ///< by group and rank
  std::vector<std::uint64_t> before_, without_groups_;
};

constexpr int kManyTurns = 2'000'000;

/// Every rank runs `rounds` operations of each group. It has up to `at_once` of them in flight, and begins those of a round in an order of its own
/// where `any_order`. Nobody ever hurries an operation: what waits for a stage must get it.
void run(SharedStages& world, int rounds, std::size_t at_once, bool any_order, bool broadcasts) {
  struct Program {
    std::vector<int> todo, flying;  ///< groups
  };
  std::vector<Program> programs(static_cast<std::size_t>(world.ranks()));
  for (int round = 0; round < rounds; round++) {
    const std::vector<int> common = world.order();
    for (Program& p : programs) {
      const std::vector<int> own = any_order ? world.order() : common;
      p.todo.insert(p.todo.end(), own.begin(), own.end());
    }
  }
  int turn = 0;
  for (int ended = 0; ended < world.ranks() * world.groups() * rounds; turn++) {
    ASSERT_LT(turn, kManyTurns) << "nothing moves any more";
    const int r = world.draw(world.ranks());
    Program& p = programs[static_cast<std::size_t>(r)];
    const auto flies = [&](int g) { return std::find(p.flying.begin(), p.flying.end(), g) != p.flying.end(); };
    if (p.flying.size() < at_once && !p.todo.empty() && !flies(p.todo.front())) {
      world.start(p.todo.front(), r, broadcasts);
      p.flying.push_back(p.todo.front());
      p.todo.erase(p.todo.begin());
    }
    if (p.flying.empty()) continue;
    const int g = p.flying[static_cast<std::size_t>(world.draw(static_cast<int>(p.flying.size())))];
    if (!world.advance(g, r)) continue;
    std::erase(p.flying, g);
    ended++;
  }
}

TEST(SharedStages, GroupsThatRunOneAfterAnotherTakeOneStage) {
  for (const int ranks : {2, 3, 5})
    for (std::uint64_t seed = 1; seed <= 10; seed++) {
      SharedStages world(ranks, 20, seed);
      run(world, 3, 1, false, false);
      for (int r = 0; r < ranks; r++)
        EXPECT_EQ(world.staging(r), world.stage_bytes()) << ranks << " ranks, rank " << r << ", seed " << seed;
      world.end();
    }
}

TEST(SharedStages, ARootThatRunsAheadTakesMoreAndNobodyWaits) {
  for (const int ranks : {2, 3, 5})
    for (std::uint64_t seed = 1; seed <= 10; seed++) {
      SharedStages world(ranks, 6, seed);
      run(world, 5, 1, false, true);
      world.end();
    }
}

TEST(SharedStages, GroupsAtOnceInAnyOrderNeverStop) {
  for (const int ranks : {2, 3, 5})
    for (std::uint64_t seed = 1; seed <= 10; seed++) {
      SharedStages world(ranks, 4, seed);
      run(world, 6, 4, true, true);
      for (int r = 0; r < ranks; r++) EXPECT_LE(world.staging(r), 4 * world.stage_bytes());
      world.end();
    }
}

TEST(SharedStages, AGroupOfItsOwnOrderOnEachRankNeedsItsOperationsInFlightOnly) {
  for (std::uint64_t seed = 1; seed <= 10; seed++) {
    SharedStages world(3, 40, seed);
    run(world, 2, 40, true, false);
    world.end();
  }
}

}  // namespace
}  // namespace unisono::engine::test
