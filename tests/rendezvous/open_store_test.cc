/// From a configuration to a store, for every way to meet.

#include "rendezvous/open_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <sstream>
#include <thread>

#include "rendezvous/claim.h"
#include "rendezvous/helpers.h"
#include "rendezvous/job_handshake.h"
#include "rendezvous/socket.h"
#include "rendezvous/store_client.h"
#include "rendezvous/store_server.h"

namespace unisono::rendezvous {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::environment_of;
using test::text_of;
using ::testing::HasSubstr;

Config config(int rank, int size, std::string method) {
  Config c;
  c.rank = rank;
  c.size = size;
  c.init_method = std::move(method);
  c.job = "job";
  c.secret = test::kSecretText;
  c.init_timeout = 20s;
  return c;
}

Logger quiet() { return Logger(LogLevel::off, ""); }

/// A TCP port that is free now, below those that the system gives to outgoing connections: one of them, of another test, could
/// have it before somebody listens on it.
std::uint16_t free_port() {
  for (std::random_device any;;) {
    const auto port = static_cast<std::uint16_t>(20000 + any() % 12000);
    if (listen_on(value_or_throw(resolve({"127.0.0.1", port, ""})).front()).ok()) return port;
  }
}

std::string local_tcp() { return "tcp://127.0.0.1:" + std::to_string(free_port()); }

/// TCP sockets that this process listens on.
int listening_tcp_sockets() {
  std::set<std::string> mine;
  for (const auto& fd : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor
    mine.insert(std::filesystem::read_symlink(fd.path(), gone).string());
  }
  int n = 0;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    while (std::getline(file, line)) {
      std::istringstream words(line);
      const std::vector<std::string> column{std::istream_iterator<std::string>(words), {}};
      if (column.size() > 9 && column[3] == "0A") n += mine.contains("socket:[" + column[9] + "]");
    }
  }
  return n;
}

/// All ranks as threads meet, exchange a value, and part; rank 0 first.
void meet(const std::function<Config(int rank)>& config_of, int size, Environment environment = environment_of({})) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; rank++)
    threads.emplace_back([&, rank] {
      auto store = open_store(config_of(rank), quiet(), environment);
      ASSERT_TRUE(store.ok()) << "rank " << rank << ": " << store.status().message();
      (*store)->set("rank/" + std::to_string(rank), bytes_of(std::to_string(rank * rank)));
      // Rank 0 leaves as soon as all have come; the others read once more after that.
      if (rank == 0) {
        for (int other = 0; other < size; other++) (*store)->get("rank/" + std::to_string(other), 20s);
        (*store)->set("decided", bytes_of("all"));
      } else {
        EXPECT_EQ(text_of((*store)->get("decided", 20s)), "all");
        const int next = (rank + 1) % size;
        EXPECT_EQ(text_of((*store)->get("rank/" + std::to_string(next), 20s)), std::to_string(next * next));
      }
    });
  for (auto& thread : threads) thread.join();
}

TEST(OpenStore, Tcp) {
  const std::string method = local_tcp();
  meet([&](int rank) { return config(rank, 4, method); }, 4);
}

TEST(OpenStore, TcpByNameWithIpv6AndIpv4) {
  const std::string method = "tcp://localhost:" + std::to_string(free_port());
  meet([&](int rank) { return config(rank, 3, method); }, 3);
}

TEST(OpenStore, TcpWithoutSecretOnLoopback) {
  const std::string method = local_tcp();
  meet(
      [&](int rank) {
        Config c = config(rank, 2, method);
        c.secret.clear();
        return c;
      },
      2);
}

TEST(OpenStore, WithoutASecretLoopbackIsForOneUser) {
  const int before = listening_tcp_sockets();
  for (const std::string host : {"127.0.0.1", "localhost", "[::1]", "127.1.2.3"}) {
    Config c = config(0, 2, "tcp://" + host + ":" + std::to_string(free_port()));
    c.secret.clear();
    const auto place = open_meeting_place(c, quiet());
    ASSERT_TRUE(place.ok()) << place.status().message();
    EXPECT_TRUE(place->of_one_user);
    EXPECT_EQ(listening_tcp_sockets(), before) << host;
    const std::string made = value_or_throw(secret_of_one_user(*place->store));
    EXPECT_EQ(value_or_throw(secret_of_one_user(*place->store)), made) << "whoever comes first makes it";
  }
  const auto served = open_meeting_place(config(0, 2, local_tcp()), quiet());
  ASSERT_TRUE(served.ok());
  EXPECT_FALSE(served->of_one_user);
}

TEST(OpenStore, LocalRanksOpenNoPort) {
  const int before = listening_tcp_sockets();
  Config c = config(0, 2, local_tcp());
  c.local_size = 2;
  const auto store = open_store(c, quiet());
  ASSERT_TRUE(store.ok()) << store.status().message();
  EXPECT_EQ(listening_tcp_sockets(), before);
  {
    const Fd seen = value_or_throw(listen_on(value_or_throw(resolve({"127.0.0.1", 0, ""})).front()));
    EXPECT_EQ(listening_tcp_sockets(), before + 1);  // one would have been seen
  }
  EXPECT_THAT((*store)->describe(), HasSubstr("unix:@unisono-"));
  c.rank = 1;
  const auto other = open_store(c, quiet());
  ASSERT_TRUE(other.ok()) << other.status().message();
}

TEST(OpenStore, EnvironmentWithAndWithoutAnAgent) {
  const auto port = free_port();
  meet([&](int rank) { return config(rank, 2, "env://"); }, 2,
       environment_of({{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(port)}}));
  // The agent's own store sits on MASTER_PORT: ours must not mind, and takes the next one.
  const Fd agent = value_or_throw(listen_on(value_or_throw(resolve({"127.0.0.1", free_port(), ""})).front()));
  const auto taken = value_or_throw(parse_endpoint(to_string(value_or_throw(local_address(agent.get()))))).port;
  meet([&](int rank) { return config(rank, 2, "env://"); }, 2,
       environment_of({{"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", std::to_string(taken)},
                       {"TORCHELASTIC_USE_AGENT_STORE", "True"}}));
}

TEST(OpenStore, File) {
  const test::TemporaryDirectory directory;
  meet([&](int rank) { return config(rank, 3, "file://" + directory.file("store")); }, 3);
}

TEST(OpenStore, AFormerJobsFileDoesNotMatterToANewJob) {
  const test::TemporaryDirectory directory;
  Config c = config(0, 1, "file://" + directory.file("store"));
  const auto old = open_store(c, quiet());
  (*old)->set("k", bytes_of("stale"));
  c.job = "job two";
  const auto fresh = open_store(c, quiet());
  const std::vector<std::string> keys{"k"};
  EXPECT_FALSE((*fresh)->check(keys));
}

TEST(OpenStore, UnixNameServedByRankZero) {
  const std::string method = "unix:@" + test::unique_name("rank0");
  meet([&](int rank) { return config(rank, 3, method); }, 3);
}

TEST(OpenStore, UnixNameServedByALauncher) {
  const Endpoint at{"", 0, test::unique_name("launcher")};
  StoreServerOptions options;
  options.handshake = test::store_handshake();
  const auto server = value_or_throw(StoreServer::start(at, std::move(options)));
  meet([&](int rank) { return config(rank, 3, to_string(at)); }, 3);
  EXPECT_TRUE(server->wait_until_idle(10s));
}

TEST(OpenStore, RanksAsProcesses) {
  constexpr int kRanks = 3;
  const std::string method = local_tcp();
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; rank++) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      int failed = 1;
      try {
        const auto store = value_or_throw(open_store(config(rank, kRanks, method), quiet()));
        const bool last = store->add("arrived", 1) == kRanks;
        if (last) store->set("all", bytes_of("yes"));
        store->get("all", 20s);
        failed = claim_rank(store, config(rank, kRanks, method), *this_host()).ok() ? 0 : 2;
      } catch (...) {
      }
      ::_exit(failed);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
}

TEST(OpenStore, ALoneRankNeedsNoMethod) {
  const auto store = open_store(config(0, 1, ""), quiet());
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->describe(), "memory store");
}

TEST(OpenStore, SeveralHostsWithoutASecretAreRefused) {
  Config c = config(1, 2, "tcp://192.0.2.7:29500");
  c.secret.clear();
  const auto store = open_store(c, quiet());
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), Code::invalid_argument);
  EXPECT_THAT(store.status().message(), HasSubstr("UNISONO_SECRET_FILE"));
  EXPECT_THAT(store.status().message(), HasSubstr("UNISONO_ALLOW_INSECURE"));
}

TEST(OpenStore, AWrongSecretIsAnAuthenticationErrorAtOnce) {
  const std::string method = local_tcp();
  const auto rank0 = open_store(config(0, 2, method), quiet());
  ASSERT_TRUE(rank0.ok());
  Config c = config(1, 2, method);
  c.secret = test::kOtherSecretText;
  const auto start = std::chrono::steady_clock::now();
  const auto rank1 = open_store(c, quiet());
  ASSERT_FALSE(rank1.ok());
  EXPECT_EQ(rank1.status().code(), Code::authentication);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST(OpenStore, APortOfAnotherProgramIsNamed) {
  const Fd other = value_or_throw(listen_on(value_or_throw(resolve({"127.0.0.1", 0, ""})).front()));
  const auto at = to_string(value_or_throw(local_address(other.get())));
  Config c = config(0, 2, "tcp://" + at);
  c.init_timeout = 300ms;
  const auto store = open_store(c, quiet());
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), Code::system);
  EXPECT_THAT(store.status().message(), HasSubstr("another program has port"));
  EXPECT_THAT(store.status().message(), HasSubstr(at));
}

TEST(OpenStore, NobodyThereSaysWhatWasTried) {
  Config c = config(1, 2, local_tcp());
  c.init_timeout = 200ms;
  const auto store = open_store(c, quiet());
  ASSERT_FALSE(store.ok());
  EXPECT_THAT(store.status().message(), HasSubstr("Connection refused"));
}

TEST(OpenStore, MethodsThatCannotBeRead) {
  for (const char* method :
       {"", "udp://x:1", "tcp://", "tcp://host", "tcp://host:0", "tcp://host:x", "file://", "unix:name", "env:///"}) {
    const auto store = open_store(config(0, 2, method), quiet());
    ASSERT_FALSE(store.ok()) << method;
    EXPECT_EQ(store.status().code(), Code::invalid_argument) << method << ": " << store.status().message();
  }
  const auto no_master = open_store(config(0, 2, "env://"), quiet(), environment_of({}));
  EXPECT_THAT(no_master.status().message(), HasSubstr("MASTER_ADDR is not set"));
}

TEST(OpenStore, RanksThatCannotBe) {
  EXPECT_FALSE(open_store(config(2, 2, "tcp://localhost:1"), quiet()).ok());
  EXPECT_FALSE(open_store(config(-1, 2, "tcp://localhost:1"), quiet()).ok());
  EXPECT_FALSE(open_store(config(0, 0, "tcp://localhost:1"), quiet()).ok());
}

}  // namespace
}  // namespace unisono::rendezvous
