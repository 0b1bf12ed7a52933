/// The contract's part about meeting and parting.

#include "contract.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <string_view>

namespace unisono::transport::test {
namespace {

Faults partial_faults() {
  Faults faults;
  faults.seed = 7;
  faults.partial = true;
  return faults;
}
Faults partial_and_late() {
  Faults faults = partial_faults();
  faults.max_delay = 200us;
  return faults;
}

const Arena kArenas[] = {
    {"shm_threads", "shm", false, {}, false},
    {"shm_processes", "shm", true, {}, false},
    {"inproc", "inproc", false, {}, false},
    {"tcp", "tcp", false, {}, false},
    {"tcp_processes", "tcp", true, {}, false},
    {"tcp_partial", "tcp", false, partial_faults(), true},
    {"inproc_partial_late", "inproc", false, partial_and_late(), true},
};
INSTANTIATE_TEST_SUITE_P(Transports, Contract, testing::ValuesIn(kArenas),
                         [](const auto& arena) { return std::string(arena.param.name); });

/// Of a tcp connection.
std::string congestion_control(const Link& link) {
  std::array<char, 16> name{};
  socklen_t length = name.size() - 1;
  return ::getsockopt(link.fd(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) == 0 ? name.data() : "none";
}

TEST_P(Contract, ConnectsInBothDirections) {
  const bool sockets = std::string_view(GetParam().transport) == "tcp" && !GetParam().faulty;
  const auto role = [&](int side) {
    return [side, sockets](Site& site, Board& board) {
      site.transport->dial(peer_id(1 - side), board.address(1 - side), site.now() + 20s);
      ASSERT_TRUE(site.until([&] { return site.ups.size() == 2; }));
      EXPECT_NE(site.ups[0].dialed, site.ups[1].dialed);
      for (auto& up : site.ups) {
        EXPECT_EQ(up.peer, peer_id(1 - side));
        EXPECT_FALSE(up.link->describe().empty());
        if (sockets) {
          EXPECT_EQ(congestion_control(*up.link), "reno") << "nothing is sent by a clock within a host";
        }
      }
      // What goes into the link that one side dialled comes out of the link that the other accepted.
      for (auto& up : site.ups) {
        const std::byte mark[1] = {static_cast<std::byte>(up.dialed ? 1 : 2)};
        EXPECT_TRUE(site.write_all(*up.link, mark));
      }
      for (auto& up : site.ups) {
        std::byte mark[1] = {};
        EXPECT_TRUE(site.read_all(*up.link, mark));
        EXPECT_EQ(mark[0], static_cast<std::byte>(up.dialed ? 2 : 1));
      }
      board.meet(site);
    };
  };
  run_pair(GetParam(), role(0), role(1));
}

TEST_P(Contract, SaysWhomItCouldNotReach) {
  Builder builder(GetParam());
  auto gone = builder.make(peer_id(1));
  const std::string address = gone->transport->address();
  gone.reset();
  auto site = builder.make(peer_id(0));
  const TimePoint begin = site->clock.now();
  site->transport->dial(peer_id(1), address, site->now() + 300ms);
  ASSERT_TRUE(site->until([&] { return !site->failures.empty(); }, 5s));
  const Duration took = site->clock.now() - begin;
  EXPECT_GE(took, 299ms);
  EXPECT_LT(took, 2s);
  const Event& event = site->failures.front();
  EXPECT_EQ(event.peer, peer_id(1));
  EXPECT_EQ(event.status.code(), Code::timeout);
  EXPECT_THAT(event.status.message(), testing::HasSubstr(address));
  EXPECT_THAT(event.status.message(), testing::HasSubstr("tries"));
}

TEST_P(Contract, ReachesWhoComesLate) {
  // The first address belongs to nobody when the dial begins; the peer is there before its deadline.
  run_pair(
      GetParam(),
      [](Site& site, Board& board) {
        site.transport->dial(peer_id(1), board.address(1), site.now() + 20s);
        EXPECT_FALSE(site.until([&] { return !site.ups.empty(); }, 150ms)) << "the peer does not answer yet";
        board.word(0).store(1, std::memory_order_release);
        auto link = site.next_link();
        EXPECT_TRUE(link);
        board.meet(site);
        site.drop(link);
      },
      [](Site& site, Board& board) {
        board.wait_for(0, 1);
        auto link = site.next_link();
        EXPECT_TRUE(link);
        board.meet(site);
        site.drop(link);
      });
}

TEST_P(Contract, RefusesWhoCannotProveItself) {
  Builder builder(GetParam());
  auto good = builder.make(peer_id(0));
  Options wrong;
  wrong.password = 43;
  auto bad = builder.make(peer_id(1), wrong);
  bad->transport->dial(peer_id(0), good->transport->address(), bad->now() + 10s);
  bool failed = false;
  ASSERT_TRUE(bad->until(
      [&] {
        good->pump();
        failed = !bad->failures.empty() && !good->rejections.empty();
        return failed;
      },
      10s));
  EXPECT_TRUE(bad->ups.empty());
  EXPECT_TRUE(good->ups.empty());
  EXPECT_EQ(bad->failures.front().status.code(), Code::authentication);
  EXPECT_THAT(good->rejections.front().status.message(), testing::HasSubstr("wrong password"));
}

TEST_P(Contract, RefusesAnotherProcessAtTheSameAddress) {
  Builder builder(GetParam());
  auto site = builder.make(peer_id(0));
  auto other = builder.make(peer_id(1));
  site->transport->dial(peer_id(2), other->transport->address(), site->now() + 10s);
  std::thread thread([&] { other->until([&] { return !other->rejections.empty() || !other->ups.empty(); }, 1s); });
  EXPECT_TRUE(site->until([&] { return !site->failures.empty(); }, 10s));
  thread.join();
  ASSERT_FALSE(site->failures.empty());
  EXPECT_THAT(site->failures.front().status.message(), testing::HasSubstr(to_string(peer_id(1))));
}

TEST_P(Contract, LosesNoWakeUp) {
  // Both park at every step, with a sleep that a lost wake-up would make far too long.
  const int rounds = (GetParam().faulty ? 500 : std::string(GetParam().transport) == "tcp" ? 30000 : 100000) / kSlow;
  const auto play = [rounds](bool first) {
    return [=](Site& site, std::unique_ptr<Link> link, Board& board) {
      std::uint64_t word = 0;
      for (int i = 0; i < rounds; ++i) {
        if (first) {
          word = static_cast<std::uint64_t>(i) * 3;
          ASSERT_TRUE(site.write_all(*link, std::as_bytes(std::span(&word, 1)), 5s)) << "round " << i;
        }
        std::uint64_t answer = 0;
        ASSERT_TRUE(site.read_all(*link, std::as_writable_bytes(std::span(&answer, 1)), 5s)) << "round " << i;
        ASSERT_EQ(answer, static_cast<std::uint64_t>(i) * 3);
        if (!first) {
          ASSERT_TRUE(site.write_all(*link, std::as_bytes(std::span(&answer, 1)), 5s)) << "round " << i;
        }
      }
      EXPECT_GT(site.parks, static_cast<std::uint64_t>(rounds) / 20);
      finish(site, link, board);
    };
  };
  run_linked(GetParam(), play(true), play(false));
}

TEST_P(Contract, ConnectingAndClosingLeavesNothingBehind) {
  const int cycles = (GetParam().faulty ? 50 : 1000) / kSlow;
  run_pair(
      GetParam(),
      [cycles](Site& site, Board& board) {
        const auto cycle = [&] {
          site.transport->dial(peer_id(1), board.address(1), site.now() + 20s);
          auto link = site.next_link();
          ASSERT_TRUE(link);
          const std::byte word[8] = {};
          std::byte answer[8];
          EXPECT_TRUE(site.write_all(*link, word));
          EXPECT_TRUE(site.read_all(*link, answer));
          site.drop(link);
        };
        cycle();
        const auto settled = [&] { return !site.transport->segment() || site.transport->segment()->allocated() == 0; };
        EXPECT_TRUE(site.until(settled));
        board.meet(site);
        const int before = open_descriptors();
        board.meet(site);
        for (int i = 0; i < cycles; ++i) cycle();
        EXPECT_TRUE(site.until(settled)) << site.transport->segment()->allocated() << " bytes of the segment are left";
        board.meet(site);
        EXPECT_LE(open_descriptors(), before + 8);
        board.meet(site);
      },
      [cycles](Site& site, Board& board) {
        const auto cycle = [&] {
          auto link = site.next_link();
          ASSERT_TRUE(link);
          std::byte word[8];
          EXPECT_TRUE(site.read_all(*link, word));
          EXPECT_TRUE(site.write_all(*link, word));
          std::vector<std::byte> rest;
          EXPECT_EQ(site.read_to_end(*link, rest), Io::State::closed);
          site.drop(link);
        };
        cycle();
        const auto settled = [&] { return !site.transport->segment() || site.transport->segment()->allocated() == 0; };
        EXPECT_TRUE(site.until(settled));
        board.meet(site);
        board.meet(site);
        for (int i = 0; i < cycles; ++i) cycle();
        EXPECT_TRUE(site.until(settled)) << site.transport->segment()->allocated() << " bytes of the segment are left";
        board.meet(site);
        board.meet(site);
      });
}

TEST_P(Contract, SharesMemoryOrSaysThatItDoesNot) {
  run_linked(
      GetParam(),
      [](Site& site, std::unique_ptr<Link> link, Board& board) {
        const std::shared_ptr<SharedSegment> segment = site.transport->segment();
        ASSERT_EQ(segment == nullptr, link->shared() == nullptr);
        if (segment) {
          auto offset = segment->allocate(128);
          ASSERT_TRUE(offset.ok());
          auto* words = reinterpret_cast<std::atomic<std::uint64_t>*>(segment->base() + *offset);
          board.word(1).store(static_cast<std::int64_t>(*offset), std::memory_order_release);
          for (std::uint64_t i = 1; i <= 1000; ++i) {
            // Data, then the signal; the reader sleeps until we wake it.
            words[8].store(i * i, std::memory_order_relaxed);
            words[0].store(i, std::memory_order_release);
            link->shared()->wake();
            EXPECT_TRUE(site.until(
                [&] { return board.word(2).load(std::memory_order_acquire) == static_cast<std::int64_t>(i); }, 5s));
          }
          EXPECT_TRUE(link->shared()->alive());
        }
        finish(site, link, board);
        if (segment) segment->release(static_cast<std::uint64_t>(board.word(1).load()), 128);
      },
      [](Site& site, std::unique_ptr<Link> link, Board& board) {
        if (SharedView* view = link->shared()) {
          while (board.word(1).load(std::memory_order_acquire) == 0) std::this_thread::yield();
          const auto offset = static_cast<std::uint64_t>(board.word(1).load());
          const auto* words = reinterpret_cast<const std::atomic<std::uint64_t>*>(view->at(offset, 128));
          ASSERT_TRUE(words);
          for (std::uint64_t i = 1; i <= 1000; ++i) {
            ASSERT_TRUE(site.until([&] { return words[0].load(std::memory_order_acquire) == i; }, 5s))
                << "signal " << i;
            EXPECT_EQ(words[8].load(std::memory_order_relaxed), i * i);
            board.word(2).store(static_cast<std::int64_t>(i), std::memory_order_release);
            view->wake();
          }
          const std::uint64_t size = 64u << 20;
          EXPECT_NE(view->at(0, size), nullptr);
          EXPECT_EQ(view->at(0, size + 1), nullptr);
          EXPECT_EQ(view->at(size, 1), nullptr);
          EXPECT_EQ(view->at(size + 1, 0), nullptr);
          EXPECT_EQ(view->at(8, ~0ull), nullptr);
          EXPECT_EQ(view->at(~0ull, 8), nullptr);
        }
        finish(site, link, board);
      });
}

TEST_P(Contract, SeesThatThePeerHungUp) {
  run_linked(
      GetParam(),
      [](Site& site, std::unique_ptr<Link> link, Board& board) {
        site.drop(link);
        EXPECT_TRUE(site.meanwhile([&] { return board.word(0).load() == 1; }));
      },
      [](Site& site, std::unique_ptr<Link> link, Board& board) {
        std::vector<std::byte> in;
        EXPECT_EQ(site.read_to_end(*link, in), Io::State::closed);
        EXPECT_TRUE(in.empty());
        if (link->shared()) {
          EXPECT_FALSE(link->shared()->alive());
        }
        EXPECT_TRUE(site.died.empty());
        board.word(0).store(1);
      });
}

}  // namespace
}  // namespace unisono::transport::test
