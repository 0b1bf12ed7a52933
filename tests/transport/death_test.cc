/// Peers that die: seen soon, named, and what they had written is still there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>

#include <csignal>

#include "arena.h"

namespace unisono::transport::test {
namespace {

const Arena kShm{"shm", "shm", true, {}, false};
const Arena kTcp{"tcp", "tcp", true, {}, false};
const Arena kInproc{"inproc", "inproc", false, {}, false};

/// A process that connects to us, writes `bytes`, optionally forks a child that outlives it, and then waits to be killed.
class Victim {
 public:
  Victim(const Arena& arena, bool forks) : builder_(arena) {
    site = builder_.make(peer_id(0));
    board_.publish(0, site->transport->address());
    // The grandchild gets the pipe's writing end: we know that it is gone when reading ends.
    pid_ = in_process([this, forks] { live(forks); });
  }
  ~Victim() {
    kill();
    if (const auto child = static_cast<pid_t>(board_.word(1).load()); child > 0) ::kill(child, SIGKILL);
  }
  void wait_until_written() {
    EXPECT_TRUE(site->meanwhile([&] { return board_.word(0).load(std::memory_order_acquire) == 1; }));
    EXPECT_FALSE(site->ups.empty());
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }
  static std::vector<std::byte> words() { return pattern(30000, 9); }

  std::unique_ptr<Site> site;

 private:
  void live(bool forks) {
    auto self = builder_.make(peer_id(1));
    self->transport->dial(peer_id(0), board_.address(0), self->now() + 20s);
    auto link = self->next_link();
    if (!link || !self->write_all(*link, words())) ::_exit(1);
    if (forks) {
      const pid_t child = ::fork();
      if (child == 0)
        while (true) ::pause();  // like a data loader's worker: holds all descriptors that it inherited
      board_.word(1).store(child);
    }
    board_.word(0).store(1, std::memory_order_release);
    while (true) ::pause();
  }

  Builder builder_;
  Board board_;
  pid_t pid_ = 0;
};

void expect_death(Victim& victim, Io::State end) {
  Site& site = *victim.site;
  auto link = site.next_link();
  ASSERT_TRUE(link);
  std::vector<std::byte> in;
  const TimePoint begin = site.clock.now();
  victim.kill();
  if (link->shared()) {
    EXPECT_TRUE(site.until([&] { return site.died.contains(peer_id(1)); }, 5s));
    EXPECT_LT(site.clock.now() - begin, 1s);
    EXPECT_FALSE(link->shared()->alive());
  }
  EXPECT_EQ(site.read_to_end(*link, in), end);
  EXPECT_LT(site.clock.now() - begin, 1s);
  EXPECT_TRUE(in == Victim::words()) << in.size() << " bytes were left to read";
  const ConstPart part[1] = {ConstPart(in)};
  if (link->shared()) {
    EXPECT_EQ(link->write(part).state, Io::State::failed);
  }
  site.drop(link);
  site.pump();
  if (site.transport->segment()) {
    EXPECT_EQ(site.transport->segment()->allocated(), 0u);
  }
}

TEST(Death, OfASharedMemoryPeerIsSeenAndItsWordsRemain) {
  Victim victim(kShm, false);
  victim.wait_until_written();
  expect_death(victim, Io::State::closed);
}

TEST(Death, IsSeenAlthoughAForkedChildHoldsTheSockets) {
  Victim victim(kShm, true);
  victim.wait_until_written();
  expect_death(victim, Io::State::closed);
}

TEST(Death, OfATcpPeerEndsTheStream) {
  Victim victim(kTcp, false);
  victim.wait_until_written();
  expect_death(victim, Io::State::closed);
}

TEST(Death, IsToldAfterTheLinkWasDroppedToo) {
  // The stream's end may be seen before the process's: dropping the link at once must not lose the news.
  Victim victim(kShm, false);
  victim.wait_until_written();
  auto link = victim.site->next_link();
  victim.site->drop(link);
  victim.site->pump();
  victim.kill();
  EXPECT_TRUE(victim.site->until([&] { return victim.site->died.contains(peer_id(1)); }, 5s));
  EXPECT_EQ(victim.site->transport->segment()->allocated(), 0u);
}

TEST(Death, CountsForAZombie) {
  Victim victim(kShm, false);
  victim.wait_until_written();
  ::kill(victim.pid(), SIGKILL);  // nobody has waited for it yet
  EXPECT_TRUE(victim.site->until([&] { return victim.site->died.contains(peer_id(1)); }, 5s));
}

TEST(Death, OfAThreadIsSimulatedByTheHub) {
  Builder builder(kInproc);
  auto a = builder.make(peer_id(0));
  auto b = builder.make(peer_id(1));
  a->transport->dial(peer_id(1), b->transport->address(), a->now() + 20s);
  for (int i = 0; i < 10 && (a->ups.empty() || b->ups.empty()); ++i) {
    a->pump();
    b->pump();
  }
  auto to_b = a->next_link();
  auto to_a = b->next_link();
  ASSERT_TRUE(to_b && to_a);
  const auto words = pattern(5000, 1);
  ASSERT_TRUE(b->write_all(*to_a, words));

  std::thread killer([&] { builder.hub().kill(peer_id(1)); });
  EXPECT_TRUE(a->until([&] { return a->died.contains(peer_id(1)); }, 5s));
  killer.join();
  EXPECT_FALSE(to_b->shared()->alive());
  std::vector<std::byte> in;
  EXPECT_EQ(a->read_to_end(*to_b, in), Io::State::closed);
  EXPECT_TRUE(in == words);
  // The dead one notices as well, so that its thread can end.
  const ConstPart part[1] = {ConstPart(words)};
  EXPECT_EQ(to_a->write(part).state, Io::State::failed);
  std::byte byte[1];
  const MutablePart into[1] = {byte};
  EXPECT_EQ(to_a->read(into).state, Io::State::closed);
  // And nobody reaches it again.
  a->transport->dial(peer_id(1), b->transport->address(), a->now() + 20ms);
  EXPECT_TRUE(a->until([&] { return !a->failures.empty(); }, 5s));
}

TEST(Farewell, OfATcpPeerArrivesBehindWhatABusyProcessHasNotReadYet) {
  Builder builder(kTcp);
  auto site = builder.make(peer_id(0));
  Board board;
  board.publish(0, site->transport->address());
  // Fills both kernels' buffers, says that it leaves, and ends.
  const pid_t leaver = in_process([&] {
    auto self = builder.make(peer_id(1));
    self->transport->dial(peer_id(0), board.address(0), self->now() + 20s);
    auto link = self->next_link();
    const auto words = pattern(1 << 16, 7);
    const ConstPart part[1] = {ConstPart(words)};
    std::uint64_t written = 0;
    for (int full = 0; full < 50;) {
      const std::size_t bytes = link->write(part).bytes;
      written += bytes;
      full = bytes == 0 ? full + 1 : 0;
      if (bytes == 0) ::poll(nullptr, 0, 1);  // the peer's kernel takes some more
    }
    board.word(1).store(static_cast<std::int64_t>(written));
    board.word(0).store(1, std::memory_order_release);
    self->drop(link);
    self.reset();
    ::_exit(0);
  });
  ASSERT_TRUE(site->meanwhile([&] { return board.word(0).load(std::memory_order_acquire) == 1; }));
  auto link = site->next_link();
  ASSERT_TRUE(link);
  // The busy process goes on sending before it reads: a socket that was closed would answer with a reset.
  const auto more = pattern(1 << 16, 8);
  const ConstPart part[1] = {ConstPart(more)};
  for (int i = 0; i < 20; i++) {
    link->write(part);
    ::poll(nullptr, 0, 1);
  }
  std::vector<std::byte> in;
  site->read_to_end(*link, in);
  EXPECT_EQ(in.size(), static_cast<std::size_t>(board.word(1).load()));
  int status = -1;
  ::waitpid(leaver, &status, 0);
  EXPECT_EQ(status, 0);
  site->drop(link);
}

TEST(Fork, AChildThatEndsDoesNotHarmItsParentsLinks) {
  run_linked(
      kShm,
      [](Site& site, std::unique_ptr<Link> link, Board& board) {
        const pid_t child = in_process([&] {
          // What a C++ program does at exit(): all destructors run, with the parent's sockets and memory in hand.
          link.reset();
          site.transport.reset();
          site.poller.reset();
        });
        int status = -1;
        ::waitpid(child, &status, 0);
        EXPECT_EQ(status, 0);
        const auto words = pattern(100000, 2);
        EXPECT_TRUE(site.write_all(*link, words));
        std::byte answer[1];
        EXPECT_TRUE(site.read_all(*link, answer));
        board.meet(site);
      },
      [](Site& site, std::unique_ptr<Link> link, Board& board) {
        std::vector<std::byte> in(100000);
        EXPECT_TRUE(site.read_all(*link, in));
        EXPECT_TRUE(in == pattern(100000, 2));
        EXPECT_TRUE(link->shared()->alive());
        const std::byte answer[1] = {};
        EXPECT_TRUE(site.write_all(*link, answer));
        board.meet(site);
      });
}

}  // namespace
}  // namespace unisono::transport::test
