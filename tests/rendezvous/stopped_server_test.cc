/// A server whose process is stopped: whoever asks it ends with the time-out that it has given, and
/// hears who does not answer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "rendezvous/answer_by.h"
#include "rendezvous/forwarding_store.h"
#include "rendezvous/helpers.h"
#include "rendezvous/served_by.h"
#include "rendezvous/store_client.h"
#include "rendezvous/store_server.h"
#include "rendezvous/when_gone.h"
#include "unisono/error.hpp"

namespace unisono::rendezvous {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::text_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr Duration kMuchLess = 15s;  // than the 30 s that a server may need for what does not wait

class StoppedServer : public ::testing::Test {
 protected:
  void SetUp() override {
    child_ = ::fork();
    if (child_ == 0) {
      const auto server = value_or_throw(
          StoreServer::start(at_, {.handshake = test::store_handshake(), .log = Logger(LogLevel::off, "")}));
      say_who_serves(*server, kRank0);
      for (;;) ::pause();
    }
    store_ = value_or_throw(connect_store(at_, {.handshake = test::store_handshake(), .connect_timeout = 20s}));
    store_->set("key", bytes_of("value"));
  }
  void TearDown() override {
    ::kill(child_, SIGKILL);
    EXPECT_EQ(::waitpid(child_, nullptr, 0), child_);
  }
  void stop() const {
    ASSERT_EQ(::kill(child_, SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child_, &status, WUNTRACED), child_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }

  /// How long `f` takes to throw Timeout.
  static Duration time_out(const std::function<void()>& f, std::string* message = nullptr) {
    const auto start = std::chrono::steady_clock::now();
    try {
      f();
      ADD_FAILURE() << "no error";
    } catch (const Timeout& e) {
      if (message != nullptr) *message = e.what();
    }
    return std::chrono::steady_clock::now() - start;
  }

  Endpoint at_{"", 0, test::unique_name("stopped")};
  pid_t child_ = 0;
  std::shared_ptr<Store> store_;
};

TEST_F(StoppedServer, IsNamedWithWhatToDo) {
  stop();
  std::string message;
  EXPECT_LT(time_out([&] { store_->get("key", 100ms); }, &message), kMuchLess);
  EXPECT_THAT(message, AllOf(HasSubstr("key \"key\""), HasSubstr("rank 0 (host "),
                             HasSubstr("pid " + std::to_string(child_) + ")"), HasSubstr("kill -CONT")));
}

TEST_F(StoppedServer, IsNotWaitedForBeyondTheDeadline) {
  stop();
  const std::string key = "key";
  const auto prefixed = make_prefix_store("p", std::make_shared<ForwardingStore>(store_));
  const auto in_time = answering_by(*prefixed, std::chrono::steady_clock::now() + 200ms);
  ASSERT_TRUE(in_time);
  const std::vector<std::function<void()>> calls{
      [&] { in_time->set(key, bytes_of("v")); },
      [&] { in_time->get(key, 100ms); },
      [&] { in_time->add(key, 1); },
      [&] { in_time->compare_set(key, {}, bytes_of("v")); },
      [&] { (void)in_time->check(std::span(&key, 1)); },
      [&] { in_time->wait(std::span(&key, 1), 100ms); },
      [&] { in_time->erase(key); },
      [&] { (void)set_when_gone(*in_time, key, bytes_of("v")); },
  };
  for (const auto& call : calls) EXPECT_LT(time_out(call), kMuchLess);
}

TEST_F(StoppedServer, GetsALongTimeToAnswerButOnce) {
  stop();
  const Duration first = time_out([&] { store_->get("key", 10ms); });
  Duration later{};
  for (int i = 0; i < 3; i++) later = std::max(later, time_out([&] { store_->get("key", 10ms); }));
  EXPECT_GE(first, 1s);
  EXPECT_LT(later, first);
}

TEST_F(StoppedServer, IsAskedAgainWhenItGoesOn) {
  // Has passed: a moment is left.
  const auto in_time = answering_by(*store_, std::chrono::steady_clock::now());
  EXPECT_EQ(text_of(in_time->get("key", 100ms)), "value");
  stop();
  time_out([&] { in_time->get("key", 10ms); });
  ASSERT_EQ(::kill(child_, SIGCONT), 0);
  EXPECT_EQ(text_of(store_->get("key", 20s)), "value");
}

TEST(AnsweringBy, StoresWithoutAServerAnswerByThemselves) {
  EXPECT_EQ(answering_by(*make_prefix_store("p", make_memory_store()), TimePoint::max()), nullptr);
}

}  // namespace
}  // namespace unisono::rendezvous
