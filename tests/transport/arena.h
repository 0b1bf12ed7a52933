#pragma once
/// Where two participants of a contract test run: threads or processes, over one of the transports.

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "site.h"

namespace unisono::transport::test {

struct Options {
  std::uint64_t segment_bytes = 64u << 20;
  std::uint64_t ring_bytes = 64u << 10;
  std::uint64_t password = 42;
};

struct Arena {
  const char* name;
  const char* transport;  ///< "shm", "tcp", "inproc"
  bool processes;         ///< the second participant is a forked process
  Faults faults;
  bool faulty;
};
inline void PrintTo(const Arena& arena, std::ostream* out) { *out << arena.name; }

/// What both participants can touch, threads or processes.
class Board {
 public:
  Board() {
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    shared_ = new (memory) Shared{};
  }
  ~Board() { ::munmap(shared_, sizeof(Shared)); }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  void publish(int side, const std::string& address) {
    std::strncpy(shared_->address[side], address.c_str(), sizeof shared_->address[side] - 1);
    shared_->published[side].store(1, std::memory_order_release);
  }
  std::string address(int side) {
    while (shared_->published[side].load(std::memory_order_acquire) == 0) std::this_thread::yield();
    return shared_->address[side];
  }
  /// A word for the test's own protocol.
  std::atomic<std::int64_t>& word(int i) { return shared_->words[i]; }
  void wait_for(int i, std::int64_t value) {
    while (word(i).load(std::memory_order_acquire) != value) std::this_thread::yield();
  }
  /// Both participants are here. The one who waits keeps its transport going: the faulty one moves bytes only then.
  void meet(Site& site) {
    const std::int64_t before = shared_->met.fetch_add(1, std::memory_order_acq_rel);
    const std::int64_t full = before / 2 * 2 + 2;
    EXPECT_TRUE(site.meanwhile([&] { return shared_->met.load(std::memory_order_acquire) >= full; }, 200s));
  }

 private:
  struct Shared {
    char address[2][128];
    std::atomic<int> published[2];
    std::atomic<std::int64_t> met;
    std::atomic<std::int64_t> words[16];
  };
  Shared* shared_;
};

inline PeerId peer_id(int side) { return {0xabcdefu, static_cast<std::uint64_t>(side) + 1}; }

/// Builds sites of one arena.
class Builder {
 public:
  explicit Builder(const Arena& arena) : arena_(arena), hub_(InprocHub::create()) {}

  std::unique_ptr<Site> make(PeerId self, const Options& options = {}) {
    auto poller = make_epoll_poller();
    Setup setup;
    setup.self = self;
    setup.handshake = std::make_shared<PasswordFactory>(self, options.password);
    setup.interface_addresses = {"127.0.0.1"};
    setup.segment_bytes = options.segment_bytes;
    setup.ring_bytes = options.ring_bytes;
    const std::string kind = arena_.transport;
    auto made = kind == "inproc" ? hub_->make(setup, *poller) : find_transport(kind)->make(setup, *poller);
    if (!made) {
      ADD_FAILURE() << made.status().message();
      return nullptr;
    }
    auto transport = std::move(made).value();
    if (arena_.faulty) transport = make_faulty(std::move(transport), arena_.faults, clock_);
    return std::make_unique<Site>(std::move(poller), std::move(transport), self);
  }
  InprocHub& hub() { return *hub_; }

 private:
  Arena arena_;
  SteadyClock clock_;
  std::shared_ptr<InprocHub> hub_;
};

using Role = std::function<void(Site&, Board&)>;

/// Runs `body` as another process; its exit status says whether its expectations held.
inline pid_t in_process(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  body();
  std::fflush(nullptr);
  ::_exit(testing::Test::HasFailure() ? 1 : 0);
}

/// Both roles at once, each with its own site; addresses are on the board when they start.
inline void run_pair(const Arena& arena, const Role& first, const Role& second, const Options& options = {}) {
  Board board;
  Builder builder(arena);
  const auto play = [&](int side, const Role& role) {
    auto site = builder.make(peer_id(side), options);
    ASSERT_TRUE(site);
    board.publish(side, site->transport->address());
    board.address(1 - side);
    role(*site, board);
    board.meet(*site);
  };
  if (arena.processes) {
    const pid_t pid = in_process([&] { play(1, second); });
    play(0, first);
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the second process failed";
    return;
  }
  std::thread other([&] { play(1, second); });
  play(0, first);
  other.join();
}

/// Both roles with a link between them, dialled by the first.
inline void run_linked(const Arena& arena, const std::function<void(Site&, std::unique_ptr<Link>, Board&)>& first,
                       const std::function<void(Site&, std::unique_ptr<Link>, Board&)>& second,
                       const Options& options = {}) {
  run_pair(
      arena,
      [&](Site& site, Board& board) {
        site.transport->dial(peer_id(1), board.address(1), site.now() + 20s);
        auto link = site.next_link();
        ASSERT_TRUE(link);
        first(site, std::move(link), board);
      },
      [&](Site& site, Board& board) {
        auto link = site.next_link();
        ASSERT_TRUE(link);
        second(site, std::move(link), board);
      },
      options);
}

}  // namespace unisono::transport::test
