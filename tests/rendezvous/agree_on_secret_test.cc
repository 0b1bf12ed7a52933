/// How ranks without a configured secret come to share one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <unisono/error.hpp>
#include <unisono/secret.hpp>

#include "rendezvous/helpers.h"
#include "rendezvous/secret_door.h"

namespace unisono::rendezvous {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// A store that everybody may read, and that remembers what was ever in it.
class OpenStore final : public test::PlainStore {
 public:
  void set(std::string_view key, std::span<const std::byte> value) override {
    {
      const std::lock_guard lock(mutex_);
      seen_.append(reinterpret_cast<const char*>(value.data()), value.size()).append("\n");
    }
    PlainStore::set(key, value);
  }
  std::string describe() const override { return "open store"; }
  std::string seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

 private:
  std::mutex mutex_;
  std::string seen_;
};

SecretTerms terms_of(int rank, int size, Duration timeout = 20s) {
  SecretTerms terms;
  terms.rank = rank;
  terms.size = size;
  terms.timeout = timeout;
  return terms;
}

/// What each of `ranks` got: its secret, or "Timeout: " and the like with the error's text.
std::vector<std::string> agree(
    OpenStore& store, const std::vector<int>& ranks, int size, Duration timeout = 20s,
    const std::function<void(SecretTerms&)>& change = [](SecretTerms&) {}) {
  std::vector<std::string> got(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < ranks.size(); i++)
    threads.emplace_back([&, i] {
      SecretTerms terms = terms_of(ranks[i], size, timeout);
      change(terms);
      try {
        got[i] = agree_on_secret(store, terms);
      } catch (const Timeout& e) {
        got[i] = std::string("Timeout: ") + e.what();
      } catch (const InvalidArgument& e) {
        got[i] = std::string("InvalidArgument: ") + e.what();
      } catch (const std::exception& e) {
        got[i] = e.what();
      }
    });
  for (auto& t : threads) t.join();
  return got;
}

/// What a rank that is somewhere else would say of itself.
void somebody_elsewhere(OpenStore& store, int rank) {
  HostIdentity other = *this_host();
  other.boot_id = "another-boot";
  const std::string text = "joins 0 " + to_text(other);
  store.set("secret/here/" + std::to_string(rank), std::as_bytes(std::span(text)));
}

TEST(AgreeOnSecret, OneForAllAndNoneInTheStore) {
  OpenStore store;
  const auto got = agree(store, {0, 1, 2, 3}, 4);
  EXPECT_EQ(got[0].size(), 64u) << got[0];
  EXPECT_EQ(std::set<std::string>(got.begin(), got.end()).size(), 1u);
  EXPECT_THAT(store.seen(), Not(HasSubstr(got[0])));
  OpenStore another;
  EXPECT_NE(agree(another, {0, 1}, 2)[0], got[0]);
  OpenStore alone;
  EXPECT_EQ(agree(alone, {0}, 1)[0].size(), 64u);
}

TEST(AgreeOnSecret, ThoseWhoAreMissingAreNamedToAll) {
  for (const auto& [here, missing] : std::vector<std::pair<std::vector<int>, std::string>>{
           {{1, 2}, "rank 0"}, {{0, 2}, "rank 1"}, {{0, 3}, "ranks 1, 2"}, {{2, 3}, "ranks 0, 1"}}) {
    OpenStore store;
    for (const std::string& text : agree(store, here, here.back() + 1, 300ms))
      EXPECT_THAT(text, AllOf(HasSubstr("Timeout: only"), HasSubstr("missing: " + missing + ". "), HasSubstr("open")));
  }
}

TEST(AgreeOnSecret, ARankOutOfRangeIsRefusedAtOnce) {
  for (const int rank : {-1, 2, 5}) {
    OpenStore store;
    EXPECT_THAT(agree(store, {rank}, 2)[0], HasSubstr("InvalidArgument: rank " + std::to_string(rank) + " of a job"));
    EXPECT_EQ(store.seen(), "");
  }
}

TEST(AgreeOnSecret, WhoCannotJoinTellsTheOthersWhy) {
  for (const int rank : {0, 2}) {
    OpenStore store;
    decline_secret(store, terms_of(rank, 3), "its settings are wrong");
    const std::vector<int> others = rank == 0 ? std::vector{1, 2} : std::vector{0, 1};
    for (const std::string& text : agree(store, others, 3))
      EXPECT_EQ(text, "InvalidArgument: rank " + std::to_string(rank) + " cannot join: its settings are wrong");
  }
}

TEST(AgreeOnSecret, BetweenHostsItTravelsThroughTheStore) {
  OpenStore store;
  somebody_elsewhere(store, 1);
  const std::string got = agree(store, {0, 2}, 3)[1];
  EXPECT_EQ(got.size(), 64u) << got;
  EXPECT_THAT(store.seen(), HasSubstr("\nstore " + got));
}

TEST(AgreeOnSecret, BetweenHostsTheStrictRefuse) {
  for (const int strict : {0, 2}) {
    OpenStore store;
    somebody_elsewhere(store, 1);
    for (const std::string& text : agree(store, {0, 2}, 3, 20s, [&](SecretTerms& t) { t.strict = t.rank == strict; }))
      EXPECT_THAT(text, AllOf(HasSubstr("InvalidArgument: rank 1"), HasSubstr("UNISONO_SECRET_FILE")));
  }
}

/// Somebody who can write to the store must not make rank 0 put the secret there.
TEST(AgreeOnSecret, OnOneHostNobodyIsTakenForARankElsewhere) {
  OpenStore store;
  somebody_elsewhere(store, 1);
  for (const std::string& text : agree(store, {0, 2}, 3, 20s, [](SecretTerms& t) { t.one_host = true; }))
    EXPECT_THAT(text, AllOf(HasSubstr("InvalidArgument: rank 1"), HasSubstr("should be on one host")));
  EXPECT_THAT(store.seen(), Not(HasSubstr("\nstore ")));
  OpenStore trusted;
  somebody_elsewhere(trusted, 1);
  const auto allow = [](SecretTerms& t) { t.one_host = t.allow_insecure = true; };
  EXPECT_EQ(agree(trusted, {0, 2}, 3, 20s, allow)[1].size(), 64u);
}

TEST(SecretDoor, IsClosedToOtherUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  const Logger quiet(LogLevel::off, "");
  const Secret secret = *Secret::generate();
  int to_child[2], to_parent[2];
  ASSERT_EQ(::pipe(to_child), 0);
  ASSERT_EQ(::pipe(to_parent), 0);
  // The child first, before this process has threads.
  const pid_t child = ::fork();
  if (child == 0) {
    char name[128] = {};
    const auto fetched = ::setuid(65534) == 0 && ::read(to_child[0], name, sizeof name - 1) > 0
                             ? fetch_secret(name, 1, 2s, quiet)
                             : Result<Secret>(Status::internal("the test did not work"));
    const char word = fetched.ok() ? 'y' : fetched.status().code() == Code::internal ? '?' : 'n';
    ::_exit(::write(to_parent[1], &word, 1) == 1 ? 0 : 1);
  }
  auto door = value_or_throw(SecretDoor::open(secret, quiet));
  ASSERT_GT(::write(to_child[1], door.name().data(), door.name().size()), 0);
  char word = 0;
  ASSERT_EQ(::read(to_parent[0], &word, 1), 1);
  EXPECT_EQ(word, 'n');
  ::waitpid(child, nullptr, 0);
  const auto mine = fetch_secret(door.name(), 1, 5s, quiet);
  ASSERT_TRUE(mine.ok()) << mine.status().message();
  EXPECT_EQ(mine->reveal(), secret.reveal());
  const int ranks[] = {1, 2};
  EXPECT_EQ(value_or_throw(door.wait_for(ranks, 50ms)), std::vector{2});
}

}  // namespace
}  // namespace unisono::rendezvous
