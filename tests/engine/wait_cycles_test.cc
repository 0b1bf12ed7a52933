/// Who waits for whom, in virtual time: cycles are found on all ranks of them, and nothing else is
/// taken for one.

#include "engine/wait_cycles.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>

#include "engine/simulated_world.h"

namespace unisono::engine {
namespace {

using test::SimulatedWorld;

constexpr auto kStep = std::chrono::milliseconds(5);

/// One call that a rank waits in: a receive from `source`, or a collective that lacks `source`.
class Wait final : public Blocked {
 public:
  Wait(SimulatedWorld& world, int rank, int source, std::uint64_t sequence, bool lasts = true)
      : world_(world), rank_(rank), source_(source), sequence_(sequence), lasts_(lasts) {
    if (sequence == 0)
      completion_ = messenger().receive_message(group(), source, 0, std::as_writable_bytes(std::span(&box_, 1)));
  }
  std::uint64_t group() const override { return world_.ground(rank_).group; }
  std::uint64_t sequence() const override { return sequence_; }
  int rank() const override { return rank_; }
  std::vector<int> peers() override {
    if (over() || (sequence_ == 0 && !messenger().awaits(group(), completion_.get()))) return {};
    return {source_ < rank_ ? source_ : source_ - 1};  // as the world has added them
  }
  std::string describe() const override { return fmt::format("rank {} waits for {}", rank_, source_); }
  bool lasts() const override { return lasts_; }
  void end(const Status& status) override {
    if (sequence_ > 0)
      ended_ = status;
    else
      EXPECT_TRUE(messenger().withdraw_receive(group(), completion_, status));
  }
  bool over() const { return sequence_ > 0 ? !ended_.ok() : completion_->done(); }
  const Status& status() const { return sequence_ > 0 ? ended_ : completion_->status(); }
  int value() const { return box_; }

 private:
  Messenger& messenger() { return *world_.rank(rank_).messenger; }
  SimulatedWorld& world_;
  int rank_, source_;
  std::uint64_t sequence_;
  bool lasts_;
  int box_ = 0;
  Status ended_;
  std::shared_ptr<Completion> completion_;
};

struct NoCalls final : Calls {
  std::uint64_t called() const noexcept override { return count; }
  std::uint64_t count = 0;
};

class WaitCycles_ : public ::testing::Test {
 protected:
  struct Rank {
    std::unique_ptr<WaitCycles> cycles;
    std::shared_ptr<NoCalls> calls = std::make_shared<NoCalls>();
    std::unique_ptr<Wait> wait;
    std::unique_ptr<WaitCycles::Search> search;
    TimePoint next{};
    bool only_thread = true;
  };

  void make(int size, const test::Chaos& chaos = {}) {
    world_ = std::make_unique<SimulatedWorld>(size, chaos, 1024);
    for (int r = 0; r < size; r++) {
      Rank& rank = ranks_.emplace_back();
      rank.cycles = std::make_unique<WaitCycles>(*world_->rank(r).messenger, world_->clock(), world_->rank(r).id,
                                                 Logger(LogLevel::off, ""), [&rank] { return rank.only_thread; });
      rank.cycles->enlist(world_->ground(r).group, rank.calls);
    }
  }
  void wait(int r, int source, std::uint64_t sequence = 0, bool lasts = true) {
    Rank& rank = ranks_[static_cast<std::size_t>(r)];
    rank.search.reset();
    rank.wait = std::make_unique<Wait>(*world_, r, source, sequence, lasts);
    rank.search = std::make_unique<WaitCycles::Search>(*rank.cycles, *rank.wait, world_->clock().now());
    rank.next = rank.search->first_look();
  }
  void stop(int r) { ranks_[static_cast<std::size_t>(r)].search.reset(); }
  void send(int r, int to, int value) {
    sent_.push_back(value);
    world_->rank(r).messenger->send_message(world_->ground(r).group, to, 0, std::as_bytes(std::span(&sent_.back(), 1)));
  }
  /// Virtual time goes on; ranks that wait do what a waiting thread does.
  void pass(Duration time) {
    const TimePoint until = world_->clock().now() + time;
    while (world_->clock().now() < until) {
      world_->clock().advance(kStep);
      for (int r = 0; r < world_->size(); r++) {
        world_->rank(r).messenger->poll(Look::all);
        Rank& rank = ranks_[static_cast<std::size_t>(r)];
        if (rank.search != nullptr && rank.wait->over()) rank.search.reset();
        if (rank.search != nullptr && (world_->clock().now() >= rank.next || rank.search->has_news()))
          rank.next = rank.search->look(world_->clock().now());
      }
    }
  }
  bool over(int r) { return ranks_[static_cast<std::size_t>(r)].wait->over(); }
  const Status& status(int r) { return ranks_[static_cast<std::size_t>(r)].wait->status(); }

  std::deque<Rank> ranks_;  // references stay
  std::deque<int> sent_;
  std::unique_ptr<SimulatedWorld> world_;
  ~WaitCycles_() override { ranks_.clear(); }
};

TEST_F(WaitCycles_, TwoThatReceiveFromEachOther) {
  make(2);
  wait(0, 1);
  wait(1, 0);
  pass(std::chrono::milliseconds(990));
  EXPECT_FALSE(over(0) || over(1)) << "nothing is said in the first second";
  pass(std::chrono::milliseconds(300));
  for (const int r : {0, 1}) {
    ASSERT_TRUE(over(r));
    EXPECT_EQ(status(r).code(), Code::mismatch);
    EXPECT_EQ(status(r).rank(), r);
    EXPECT_EQ(status(r).other(), 1 - r);
    EXPECT_NE(status(r).message().find("ranks 0 and 1 wait for each other: rank 0 waits for 1 since 1."),
              std::string::npos)
        << status(r).message();
  }
  // The group goes on.
  wait(0, 1);
  send(1, 0, 5);
  pass(std::chrono::milliseconds(50));
  ASSERT_TRUE(over(0));
  EXPECT_TRUE(status(0).ok());
}

TEST_F(WaitCycles_, RingsOfAllSizesThatFormLate) {
  for (const int size : {3, 4, 7}) {
    ranks_.clear();
    make(size, {.seed = static_cast<std::uint64_t>(size), .partial = true, .max_delay = std::chrono::milliseconds(2)});
    for (int r = 0; r + 1 < size; r++) {
      wait(r, r + 1);
      pass(std::chrono::milliseconds(700));
    }
    for (int r = 0; r + 1 < size; r++) EXPECT_FALSE(over(r));
    wait(size - 1, 0);
    pass(std::chrono::seconds(3));
    for (int r = 0; r < size; r++) {
      ASSERT_TRUE(over(r)) << r << " of " << size;
      EXPECT_EQ(status(r).code(), Code::mismatch);
      EXPECT_EQ(status(r).message(), status(0).message());
    }
  }
}

TEST_F(WaitCycles_, WhoOnlyWaitsForACycleIsNotInIt) {
  make(4);
  wait(3, 0);
  wait(0, 1);
  wait(1, 2);
  wait(2, 0);
  pass(std::chrono::seconds(3));
  for (const int r : {0, 1, 2}) EXPECT_TRUE(over(r)) << r;
  EXPECT_FALSE(over(3));
  stop(3);
}

TEST_F(WaitCycles_, ASenderThatIsSlowIsNoCycle) {
  make(3);
  wait(0, 1);
  wait(2, 0);
  pass(std::chrono::seconds(5));
  EXPECT_FALSE(over(0) || over(2));
  send(1, 0, 7);
  pass(std::chrono::milliseconds(50));
  ASSERT_TRUE(over(0));
  EXPECT_TRUE(status(0).ok());
  EXPECT_EQ(ranks_[0].wait->value(), 7);
  wait(0, 2);  // now it is one
  pass(std::chrono::seconds(8));
  for (const int r : {0, 2}) EXPECT_EQ(status(r).code(), Code::mismatch) << r;
}

/// A token goes round for long, each rank with it for longer than a wait is young: at any time all
/// but one wait for the one before, and the one that does not changes.
TEST_F(WaitCycles_, ARingThatGoesOnSlowlyIsNoCycle) {
  constexpr int kSize = 4;
  make(kSize, {.seed = 3, .partial = true, .max_delay = std::chrono::milliseconds(30)});
  for (int r = 1; r < kSize; r++) wait(r, r - 1);
  for (int turn = 0; turn < 24; turn++) {
    const int r = turn % kSize, next = (r + 1) % kSize;
    pass(std::chrono::milliseconds(1500 + 130 * (turn % 5)));
    send(r, next, turn);
    wait(r, (r + kSize - 1) % kSize);
    for (int spent = 0; !over(next) && spent < 100; spent++) pass(kStep);
    ASSERT_TRUE(over(next)) << turn;
    ASSERT_TRUE(status(next).ok()) << status(next).message();
    stop(next);
  }
}

/// The waits of two ranks cover each other now and then, but each has just been served by the
/// other.
TEST_F(WaitCycles_, WaitsThatEndAndNewOnesAreToldApart) {
  make(2, {.seed = 9, .partial = true, .max_delay = std::chrono::milliseconds(40)});
  for (int turn = 0; turn < 20; turn++) {
    const int r = turn % 2, other = 1 - r;
    wait(other, r);
    pass(std::chrono::milliseconds(1400));
    send(r, other, turn);
    wait(r, other);  // a question about the old wait is on its way
    pass(std::chrono::milliseconds(10 * (turn % 7)));
    send(other, r, turn);
    pass(std::chrono::milliseconds(200));
    for (const int q : {0, 1}) {
      ASSERT_TRUE(over(q)) << turn;
      ASSERT_TRUE(status(q).ok()) << status(q).message();
      stop(q);
    }
  }
}

TEST_F(WaitCycles_, AReceiveAgainstACollective) {
  make(2);
  wait(0, 1);
  wait(1, 0, 1);
  pass(std::chrono::seconds(2));
  for (const int r : {0, 1}) EXPECT_EQ(status(r).code(), Code::mismatch) << r;
}

TEST_F(WaitCycles_, WhoTakesPartInTheCollectiveIsNotWaitedFor) {
  make(2);
  ranks_[0].calls->count = 1;  // begun without a wait, and still under way
  wait(0, 1);
  wait(1, 0, 1);
  pass(std::chrono::seconds(10));
  EXPECT_FALSE(over(0) || over(1));
  stop(0);
  stop(1);
}

/// Where another thread may send, or the caller gives up, it is said, and no more.
TEST_F(WaitCycles_, WhatIsNotCertainIsPartOfTheTimeout) {
  for (int why = 0; why < 3; why++) {
    ranks_.clear();
    make(2);
    if (why == 0) ranks_[1].only_thread = false;
    if (why == 1) ranks_[1].cycles->callbacks()->fetch_add(1);
    wait(0, 1);
    wait(1, 0, 0, why != 2);
    pass(std::chrono::seconds(10));
    EXPECT_FALSE(over(0) || over(1));
    for (const int r : {0, 1}) {
      const Status late = ranks_[static_cast<std::size_t>(r)].search->explain(Status::timeout("late"));
      EXPECT_EQ(late.code(), Code::timeout);
      EXPECT_NE(late.message().find("ranks 0 and 1 wait for each other"), std::string::npos) << late.message();
    }
    send(0, 1, 1);
    pass(std::chrono::milliseconds(50));
    EXPECT_TRUE(over(1));
    stop(0);
  }
}

TEST(WaitNotice, GarbageIsRefused) {
  for (const std::string_view text : {"", "{", "[]", R"({"kind": 9})", R"({"kind": 2, "to": "x"})"})
    EXPECT_FALSE(WaitNotice::decode(std::as_bytes(std::span(text)))) << text;
  WaitNotice notice;
  notice.kind = WaitNotice::Kind::path;
  notice.to = ~std::uint64_t{0};
  notice.hops = {{7, false, true, 3, "text"}};
  const auto read = WaitNotice::decode(notice.encode());
  ASSERT_TRUE(read);
  EXPECT_EQ((*read).to, notice.to);
  EXPECT_EQ((*read).hops.at(0).text, "text");
  EXPECT_TRUE((*read).hops.at(0).collective);
  EXPECT_FALSE((*read).hops.at(0).certain);
}

}  // namespace
}  // namespace unisono::engine
