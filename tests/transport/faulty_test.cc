#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arena.h"

namespace unisono::transport::test {
namespace {

TEST(ParseFaults, ReadsEveryItem) {
  auto faults = parse_faults("partial,delay=1ms,seed=3,cut=100000,blackhole=200000");
  ASSERT_TRUE(faults.ok());
  EXPECT_TRUE(faults->partial);
  EXPECT_EQ(faults->max_delay, 1ms);
  EXPECT_EQ(faults->seed, 3u);
  EXPECT_EQ(faults->cut_after_bytes, 100000u);
  EXPECT_EQ(faults->black_hole_after_bytes, 200000u);
  EXPECT_TRUE(parse_faults("").ok());
  EXPECT_EQ(parse_faults("delay=250us")->max_delay, 250us);
  EXPECT_EQ(parse_faults("delay=2s")->max_delay, 2s);
  EXPECT_EQ(parse_faults("delay=7ns")->max_delay, 7ns);
}

TEST(ParseFaults, NamesWhatItDoesNotUnderstand) {
  for (const char* text : {"slow", "delay", "delay=1", "delay=ms", "delay=-1ms", "seed=", "seed=x", "cut=1k",
                           "partial=yes", ",", "cut", "delay=99999999999s", "seed=99999999999999999999999"}) {
    auto faults = parse_faults(text);
    ASSERT_FALSE(faults.ok()) << text;
    EXPECT_EQ(faults.status().code(), Code::invalid_argument);
    EXPECT_THAT(faults.status().message(), testing::HasSubstr("fault"));
  }
}

/// Two inproc sites with links between them, the first behind faults that follow a manual clock.
class FaultyTest : public testing::Test {
 protected:
  void connect(const Faults& faults) {
    hub = InprocHub::create();
    a = make(0, &faults);
    b = make(1, nullptr);
    a->transport->dial(peer_id(1), b->transport->address(), a->now() + 20s);
    for (int i = 0; i < 10 && (a->ups.empty() || b->ups.empty()); ++i) {
      a->pump();
      b->pump();
    }
    to_b = a->next_link();
    to_a = b->next_link();
    ASSERT_TRUE(to_b && to_a);
  }
  std::unique_ptr<Site> make(int side, const Faults* faults) {
    auto poller = make_epoll_poller();
    transport::Setup setup;
    setup.self = peer_id(side);
    setup.handshake = std::make_shared<PasswordFactory>(setup.self);
    setup.segment_bytes = 16 << 20;
    auto transport = hub->make(setup, *poller).value();
    if (faults) transport = make_faulty(std::move(transport), *faults, clock);
    return std::make_unique<Site>(std::move(poller), std::move(transport), setup.self);
  }
  std::size_t arrived() {
    std::byte chunk[4096];
    std::size_t sum = 0;
    while (true) {
      const MutablePart part[1] = {chunk};
      const Io io = to_a->read(part);
      sum += io.bytes;
      if (io.bytes == 0) return sum;
    }
  }
  ManualClock clock;
  std::shared_ptr<InprocHub> hub;
  std::unique_ptr<Site> a, b;
  std::unique_ptr<Link> to_b, to_a;
};

TEST_F(FaultyTest, HoldsBytesBackUntilTheirTime) {
  Faults faults;
  faults.max_delay = 10ms;
  connect(faults);
  const auto bytes = pattern(100, 1);
  const ConstPart part[1] = {bytes};
  EXPECT_EQ(to_b->write(part).bytes, 100u);
  a->pump();
  const TimePoint due = a->transport->next_deadline();
  EXPECT_GT(due, clock.now());
  EXPECT_LE(due, clock.now() + 10ms);
  EXPECT_EQ(arrived(), 0u);
  clock.advance(due - clock.now() - 1ns);
  a->pump();
  EXPECT_EQ(arrived(), 0u);
  clock.advance(1ns);
  a->pump();
  EXPECT_EQ(arrived(), 100u);
  EXPECT_EQ(a->transport->next_deadline(), TimePoint::max());
}

TEST_F(FaultyTest, DeliversWhatIsHeldAfterTheLinkIsGone) {
  Faults faults;
  faults.max_delay = 10ms;
  connect(faults);
  const auto bytes = pattern(100, 1);
  const ConstPart part[1] = {bytes};
  EXPECT_EQ(to_b->write(part).bytes, 100u);
  to_b.reset();
  a->pump();
  EXPECT_EQ(arrived(), 0u);
  clock.advance(10ms);
  a->pump();
  EXPECT_EQ(arrived(), 100u);
  std::vector<std::byte> rest;
  EXPECT_EQ(b->read_to_end(*to_a, rest), Io::State::closed);
}

TEST_F(FaultyTest, IsFullWhenMuchIsHeld) {
  Faults faults;
  faults.max_delay = 10ms;
  connect(faults);
  const auto bytes = pattern(100000, 1);
  const ConstPart part[1] = {bytes};
  std::size_t taken = 0;
  for (int i = 0; i < 100; ++i) taken += to_b->write(part).bytes;
  EXPECT_LT(taken, 2u << 20);
  EXPECT_GT(taken, 1u << 20);
}

TEST_F(FaultyTest, CutsTheLink) {
  Faults faults;
  faults.cut_after_bytes = 150;
  connect(faults);
  const auto bytes = pattern(100, 1);
  const ConstPart part[1] = {bytes};
  EXPECT_EQ(to_b->write(part).bytes, 100u);
  EXPECT_EQ(to_b->write(part).bytes, 50u);
  const Io io = to_b->write(part);
  EXPECT_EQ(io.state, Io::State::failed);
  EXPECT_EQ(io.error, ECONNRESET);
  std::byte byte[1];
  const MutablePart into[1] = {byte};
  EXPECT_EQ(to_b->read(into).state, Io::State::failed);
  EXPECT_EQ(arrived(), 150u);
}

TEST_F(FaultyTest, SwallowsInABlackHole) {
  Faults faults;
  faults.black_hole_after_bytes = 150;
  connect(faults);
  const auto bytes = pattern(100, 1);
  const ConstPart part[1] = {bytes};
  EXPECT_EQ(to_b->write(part).bytes, 100u);
  EXPECT_EQ(to_b->write(part).bytes, 50u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(to_b->write(part).bytes, 100u);
  EXPECT_EQ(arrived(), 150u);
  ASSERT_TRUE(b->write_all(*to_a, bytes));
  std::byte in[100];
  const MutablePart into[1] = {in};
  const Io io = to_b->read(into);
  EXPECT_EQ(io.state, Io::State::ok);
  EXPECT_EQ(io.bytes, 0u);
}

TEST_F(FaultyTest, IsTheSameForTheSameSeed) {
  const auto sizes = [&](std::uint64_t seed) {
    Faults faults;
    faults.seed = seed;
    faults.partial = true;
    connect(faults);
    const auto bytes = pattern(1000, 1);
    const ConstPart part[1] = {bytes};
    std::vector<std::size_t> taken;
    for (int i = 0; i < 50; ++i) taken.push_back(to_b->write(part).bytes);
    to_b.reset();
    to_a.reset();
    return taken;
  };
  const auto first = sizes(1);
  EXPECT_EQ(first, sizes(1));
  EXPECT_NE(first, sizes(2));
  EXPECT_THAT(first, testing::Each(testing::AllOf(testing::Ge(1u), testing::Le(1000u))));
  EXPECT_THAT(first, testing::Contains(1u));
}

}  // namespace
}  // namespace unisono::transport::test
