/// What a store tells of processes that have ended: our server, which sees connections end, and any
/// other store, where the ranks of a host look after each other.

#include "rendezvous/last_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "base/fd.h"
#include "rendezvous/ended_ranks.h"
#include "rendezvous/helpers.h"
#include "rendezvous/process_stat.h"
#include "rendezvous/socket.h"
#include "rendezvous/store_client.h"
#include "rendezvous/store_protocol.h"
#include "rendezvous/store_server.h"
#include "rendezvous/when_gone.h"
#include "unisono/error.hpp"
#include "unisono/secret.hpp"

namespace unisono::rendezvous {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::text_of;
using ::testing::HasSubstr;

TimePoint in(Duration d) { return std::chrono::steady_clock::now() + d; }

bool has(Store& store, const std::string& key) { return store.check(std::span(&key, 1)); }

/// Calls `f` in a process of its own, which ends without a word.
pid_t run_and_die(const std::function<void()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    f();
    ::_exit(0);
  }
  siginfo_t ended{};
  // A zombie from now on.
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  return child;
}
void reap(pid_t child) { EXPECT_EQ(::waitpid(child, nullptr, 0), child); }

class WhenGone : public ::testing::Test {
 protected:
  std::shared_ptr<Store> join() {
    return value_or_throw(
        connect_store(server_->endpoint(), {.handshake = test::store_handshake(), .connect_timeout = 20s}));
  }

  /// A client by hand: its connection ends when and how the test says.
  Fd connect() {
    Fd fd = value_or_throw(connect_to(value_or_throw(resolve(server_->endpoint())).front(), in(20s)));
    const auto handshake = test::store_handshake()->dial(PeerId{});
    for (auto state = Handshake::State::more; state == Handshake::State::more;) {
      send(fd, handshake->take_output());
      std::byte buffer[512];
      const std::size_t n = receive(fd, buffer);
      std::size_t consumed = 0;
      state = handshake->feed({buffer, n}, consumed);
    }
    send(fd, handshake->take_output());
    return fd;
  }
  static void send(const Fd& fd, const Bytes& bytes) {
    if (bytes.empty()) return;
    ASSERT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
  }
  static std::size_t receive(const Fd& fd, std::span<std::byte> buffer) {
    EXPECT_TRUE(wait_for(fd.get(), POLLIN, in(20s)));
    const ssize_t n = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
    EXPECT_GT(n, 0);
    return static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  }
  /// Send a request, and have the answer.
  static void ask(const Fd& fd, const StoreRequest& request) {
    send(fd, encode(request));
    std::byte answer[512];
    receive(fd, answer);
  }
  static StoreRequest words(const std::string& key, std::string_view value) {
    return {StoreOp::when_gone, {key}, bytes_of(value), {}};
  }
  static StoreRequest goodbye() { return {StoreOp::when_gone, {}, {}, {}}; }

  std::unique_ptr<StoreServer> server_ = value_or_throw(StoreServer::start(
      {"127.0.0.1", 0, ""}, {.handshake = test::store_handshake(), .log = Logger(LogLevel::off, "")}));
};

TEST_F(WhenGone, TheWordsOfAConnectionThatEndsAreSet) {
  const auto reader = join();
  Fd fd = connect();
  ask(fd, words("gone", "why"));
  EXPECT_FALSE(has(*reader, "gone"));
  fd = Fd();
  EXPECT_EQ(text_of(reader->get("gone", 20s)), "why");
}

TEST_F(WhenGone, WhoLeavesLeavesNoWords) {
  auto client = join();
  ASSERT_TRUE(set_when_gone(*client, "gone", bytes_of("why")));
  client.reset();
  ASSERT_TRUE(server_->wait_until_idle(20s));
  EXPECT_FALSE(has(*join(), "gone"));
}

TEST_F(WhenGone, AGoodbyeBehindARequestThatWaitsCounts) {
  Fd leaving = connect(), killed = connect();
  for (const auto& [fd, key] : {std::pair(&leaving, "left"), std::pair(&killed, "killed")}) {
    ask(*fd, words(key, "why"));
    StoreRequest waiting{StoreOp::get, {"never"}, {}, {}};
    waiting.timeout = 60s;
    send(*fd, encode(waiting));
  }
  send(leaving, encode(goodbye()));
  leaving = Fd();
  killed = Fd();
  ASSERT_TRUE(server_->wait_until_idle(20s));
  const auto reader = join();
  EXPECT_EQ(text_of(reader->get("killed", 20s)), "why");
  EXPECT_FALSE(has(*reader, "left"));
}

TEST_F(WhenGone, TheFirstWordsCount) {
  const auto reader = join();
  Fd first = connect(), second = connect();
  ask(first, words("gone", "first"));
  ask(second, words("gone", "second"));
  ask(second, words("gone too", "second"));
  first = Fd();
  EXPECT_EQ(text_of(reader->get("gone", 20s)), "first");
  second = Fd();
  EXPECT_EQ(text_of(reader->get("gone too", 20s)), "second");
  EXPECT_EQ(text_of(reader->get("gone", 20s)), "first");
}

TEST_F(WhenGone, ThoseOfAClientThatIsKilledPassThroughPrefixes) {
  const auto reader = join();
  const pid_t child = run_and_die([&] {
    const auto store = make_prefix_store("turn 2", join());
    (void)set_when_gone(*store, "gone", bytes_of("why"));
    ::_exit(0);  // the store is not destroyed
  });
  EXPECT_EQ(text_of(reader->get("turn 2/gone", 20s)), "why");
  reap(child);
}

TEST_F(WhenGone, TheyAreBoundedAndTheOldestGoFirst) {
  const auto reader = join();
  const std::string large(kMaxLastWords / 2, 'x');
  EXPECT_THROW((void)set_when_gone(*reader, "too large", bytes_of(large + large)), InvalidArgument);
  Fd fd = connect();
  for (const char* key : {"a", "b", "c"}) ask(fd, words(key, std::string_view(large).substr(1)));
  ask(fd, words("c", "short"));
  ask(fd, words("d", "last"));
  fd = Fd();
  EXPECT_EQ(text_of(reader->get("d", 20s)), "last");
  EXPECT_EQ(text_of(reader->get("c", 20s)), "short");
  EXPECT_FALSE(has(*reader, "a"));
}

TEST_F(WhenGone, TheServingProcessHasAWordToo) {
  server_->set_first("said", bytes_of("first"));
  const auto reader = join();
  EXPECT_EQ(text_of(reader->get("said", 20s)), "first");
  server_->set_first("said", bytes_of("second"));
  server_->set_first("then", bytes_of("third"));
  EXPECT_EQ(text_of(reader->get("then", 20s)), "third");
  EXPECT_EQ(text_of(reader->get("said", 20s)), "first");
}

TEST(Protocol, OnlyAGoodbyeHasNoKey) {
  const auto decodes = [](const StoreRequest& request) {
    const Bytes frame = encode(request);
    return decode_request(std::span(frame).subspan(4)).ok();
  };
  EXPECT_TRUE(decodes({StoreOp::when_gone, {}, {}, {}}));
  EXPECT_TRUE(decodes({StoreOp::when_gone, {"a"}, {}, {}}));
  EXPECT_FALSE(decodes({StoreOp::when_gone, {"a", "b"}, {}, {}}));
  EXPECT_FALSE(decodes({StoreOp::set, {}, {}, {}}));
}

class LastWordsInAFile : public ::testing::Test {
 protected:
  std::shared_ptr<Store> open() const { return make_file_store(directory_.file("store")); }
  test::TemporaryDirectory directory_;
};

TEST_F(LastWordsInAFile, AreReadWhenTheirProcessHasEndedAndNotBefore) {
  const auto store = open();
  EXPECT_FALSE(keeps_last_words(*make_prefix_store("p", store)));
  LastWords mine(*store, "world");
  mine.leave("mine", bytes_of("I am gone"));
  LastWords neighbour(*store, "world");
  neighbour.leave("neighbour", bytes_of("so am I"));
  mine.publish_due();
  EXPECT_FALSE(has(*store, "neighbour")) << "its process lives";

  const pid_t child = run_and_die([&] {
    const auto own = open();
    LastWords(*own, "another world").leave("not here", bytes_of("x"));
    LastWords words(*own, "world");
    words.leave("child", bytes_of("killed"));
    ::_exit(0);
  });
  mine.publish_due();
  EXPECT_EQ(text_of(store->get("child", 1s)), "killed");
  EXPECT_FALSE(has(*store, "not here"));
  EXPECT_FALSE(has(*store, "neighbour"));
  reap(child);
}

TEST_F(LastWordsInAFile, AreKnownWithoutTheStore) {
  const auto store = open();
  LastWords mine(*store, "world");
  mine.leave("mine", bytes_of("x"));
  int go[2];
  ASSERT_EQ(::pipe(go), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(go[1]);
    const auto own = open();
    LastWords words(*own, "world");
    words.leave("child", bytes_of("killed"));
    own->set("left", bytes_of("yes"));
    char end = 0;
    (void)!::read(go[0], &end, 1);
    ::_exit(0);
  }
  ::close(go[0]);
  (void)store->get("left", 20s);
  mine.publish_due();
  EXPECT_FALSE(mine.of_one_who_ended());
  ::close(go[1]);
  reap(child);
  const auto words = mine.of_one_who_ended();
  ASSERT_TRUE(words);
  EXPECT_EQ(text_of(*words), "killed");
}

TEST_F(LastWordsInAFile, WhoLeavesTakesThemBack) {
  const auto store = open();
  LastWords mine(*store, "world");
  mine.leave("mine", bytes_of("x"));
  const pid_t child = run_and_die([&] {
    const auto own = open();
    LastWords(*own, "world").leave("child", bytes_of("killed"));  // and destroyed
  });
  mine.publish_due();
  EXPECT_FALSE(has(*store, "child"));
  reap(child);
}

TEST_F(LastWordsInAFile, ARankThatEndsBeforeTheSecretIsAgreedOnIsNamed) {
  const auto store = open();
  pid_t child = 0;
  std::thread other([&] {
    child = run_and_die([&] {
      const auto own = open();
      const auto here = value_or_throw(this_host());
      LastWords words(*own, "secret");
      words.leave("secret/ended", encode(EndedRank{1, 3, here.pid, here.host, "killed"}));
      ::_exit(0);
    });
  });
  SecretTerms terms;
  terms.size = 3;
  terms.timeout = 60s;
  try {
    (void)agree_on_secret(*store, terms);
    ADD_FAILURE() << "no error";
  } catch (const RankFailure& e) {
    EXPECT_EQ(e.rank, 1);
    EXPECT_THAT(e.what(), HasSubstr("joined: killed"));
  }
  other.join();
  reap(child);
}

TEST(LastWordsText, ComesBackAsItWas) {
  const LastWords::Entry entry{value_or_throw(this_host()), 77, "a key with blanks", bytes_of("value\0with zero")};
  const Bytes text = LastWords::encode(entry);
  const auto back = value_or_throw(LastWords::decode(text));
  EXPECT_EQ(back.owner, entry.owner);
  EXPECT_EQ(back.start_time, entry.start_time);
  EXPECT_EQ(back.key, entry.key);
  EXPECT_EQ(back.value, entry.value);
  for (std::size_t n = 0; n < text.size() - entry.value.size(); n++)
    EXPECT_FALSE(LastWords::decode(std::span(text).first(n)).ok()) << n;
}

TEST(ProcessStat, TellsProcessesApart) {
  const auto self = process_stat(::getpid());
  ASSERT_TRUE(self);
  EXPECT_EQ(self->parent, ::getppid());
  EXPECT_FALSE(process_has_ended(::getpid(), self->start_time));
  EXPECT_TRUE(process_has_ended(::getpid(), self->start_time + 1)) << "another process had this pid before";
  const pid_t child = run_and_die([] {});
  const auto zombie = process_stat(child);
  ASSERT_TRUE(zombie);
  EXPECT_TRUE(process_has_ended(child, zombie->start_time));
  reap(child);
  EXPECT_TRUE(process_has_ended(child, zombie->start_time));
}

TEST(EndedRanks, AreErrorsThatNameThem) {
  const Status s = failure_of_ended(encode(EndedRank{3, 4, 99, "node7", "exited with status 4"}), 4);
  EXPECT_EQ(s.code(), Code::rank_failure);
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s.pid(), 99);
  EXPECT_EQ(s.host(), "node7");
  EXPECT_THAT(s.message(), HasSubstr("exited with status 4"));
  EXPECT_TRUE(failure_of_ended(encode(EndedRank{3, 4, 99, "node7", "killed"}), 2).ok());
  EXPECT_EQ(failure_of_ended(bytes_of("{\"rank\": 3}"), 4).code(), Code::internal);
}

}  // namespace
}  // namespace unisono::rendezvous
