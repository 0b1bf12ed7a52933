/// The store server among strangers, scanners, slow and many clients; the client without a server.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <random>
#include <thread>

#include "base/fd.h"
#include "rendezvous/helpers.h"
#include "rendezvous/socket.h"
#include "rendezvous/store_client.h"
#include "rendezvous/store_protocol.h"
#include "rendezvous/store_server.h"
#include "unisono/error.hpp"

namespace unisono::rendezvous {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::text_of;
using ::testing::HasSubstr;

TimePoint in(Duration d) { return std::chrono::steady_clock::now() + d; }

Endpoint any_port() { return {"127.0.0.1", 0, ""}; }

std::unique_ptr<StoreServer> serve(
    Endpoint at = any_port(), std::function<void(StoreServerOptions&)> adjust = [](auto&) {}) {
  StoreServerOptions options;
  options.handshake = test::store_handshake();
  options.log = Logger(LogLevel::off, "");
  adjust(options);
  return value_or_throw(StoreServer::start(at, std::move(options)));
}

Result<std::shared_ptr<Store>> join(const Endpoint& at, Duration patience = 20s,
                                    std::string_view secret = test::kSecretText, std::string job = "job") {
  StoreClientOptions options;
  options.handshake = test::store_handshake(secret, std::move(job));
  options.connect_timeout = patience;
  options.answer_timeout = 20s;
  return connect_store(at, std::move(options));
}

/// A connection without manners.
Fd connect_raw(const Endpoint& at) { return value_or_throw(connect_to(value_or_throw(resolve(at)).front(), in(5s))); }

/// Whether the server hangs up within `patience`, whatever it says before.
bool hung_up(int fd, Duration patience = 20s) {
  const TimePoint deadline = in(patience);
  char buffer[4096];
  while (wait_for(fd, POLLIN, deadline)) {
    const ssize_t n = ::recv(fd, buffer, sizeof buffer, 0);
    if (n == 0 || (n < 0 && errno != EAGAIN)) return true;
  }
  return false;
}

void shout(int fd, std::string_view text) { (void)!::send(fd, text.data(), text.size(), MSG_NOSIGNAL); }

void expect_works(const Endpoint& at) {
  const auto store = value_or_throw(join(at));
  const std::string key = test::unique_name("key");
  store->set(key, bytes_of("v"));
  EXPECT_EQ(text_of(store->get(key, 5s)), "v");
}

TEST(StoreServer, StrangersAreShownTheDoorAtOnce) {
  const auto server = serve();
  for (const std::string_view greeting :
       {std::string_view("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string_view("\x16\x03\x01\x02\x00", 5),
        std::string_view("\0\0\0\0\0", 5), std::string_view("SSH-2.0-x\r\n")}) {
    const Fd fd = connect_raw(server->endpoint());
    shout(fd.get(), greeting);
    EXPECT_TRUE(hung_up(fd.get(), 4s)) << greeting;
  }
  expect_works(server->endpoint());
}

TEST(StoreServer, RandomBytesDoNoHarm) {
  const auto server = serve();
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; i++) {
    const Fd fd = connect_raw(server->endpoint());
    std::string noise(random() % 2000, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    if (i % 3 == 0) noise = "UNISONO\x01" + noise;  // past the magic
    shout(fd.get(), noise);
    if (i % 2) {  // reset instead of an orderly end
      const linger hard{1, 0};
      ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
  }
  expect_works(server->endpoint());
}

TEST(StoreServer, WhoSaysNothingIsDroppedAtTheDeadline) {
  const auto server = serve(any_port(), [](auto& o) { o.handshake_timeout = 200ms; });
  const Fd silent = connect_raw(server->endpoint());
  const Fd slow = connect_raw(server->endpoint());
  shout(slow.get(), "UNIS");
  EXPECT_TRUE(hung_up(silent.get()));
  EXPECT_TRUE(hung_up(slow.get()));
  expect_works(server->endpoint());
}

TEST(StoreServer, AFloodOfSilentConnectionsDoesNotKeepClientsOut) {
  const auto server = serve(any_port(), [](auto& o) { o.max_unauthenticated = 8; });
  std::vector<Fd> flood;
  for (int i = 0; i < 100; i++) flood.push_back(connect_raw(server->endpoint()));
  expect_works(server->endpoint());
}

TEST(StoreServer, GarbageAfterTheHandshakeEndsThatConnectionAlone) {
  const auto server = serve();
  for (const std::string_view garbage : {"\xff\xff\xff\xff", "\x04\x00\x00\x00xxxx"}) {
    const Fd fd = connect_raw(server->endpoint());
    const auto handshake = test::store_handshake()->dial(PeerId{});
    auto state = Handshake::State::more;
    while (state == Handshake::State::more) {
      const Bytes out = handshake->take_output();
      ASSERT_EQ(::send(fd.get(), out.data(), out.size(), MSG_NOSIGNAL), static_cast<ssize_t>(out.size()));
      ASSERT_TRUE(wait_for(fd.get(), POLLIN, in(5s)));
      std::byte buffer[512];
      const ssize_t n = ::recv(fd.get(), buffer, sizeof buffer, 0);
      ASSERT_GT(n, 0);
      std::size_t consumed = 0;
      state = handshake->feed({buffer, static_cast<std::size_t>(n)}, consumed);
    }
    ASSERT_EQ(state, Handshake::State::done);
    shout(fd.get(), garbage.size() == 4 ? garbage : std::string_view("\x04\x00\x00\x00xxxx", 8));
    EXPECT_TRUE(hung_up(fd.get()));
  }
  expect_works(server->endpoint());
}

TEST(StoreServer, TwoHundredClientsMeet) {
  constexpr int kClients = 200;
  const auto server = serve();
  std::vector<std::thread> threads;
  std::atomic<int> ok{0};
  for (int i = 0; i < kClients; i++)
    threads.emplace_back([&, i] {
      const auto store = join(server->endpoint(), 60s);
      ASSERT_TRUE(store.ok()) << store.status().message();
      (*store)->set("rank/" + std::to_string(i), bytes_of("here"));
      if ((*store)->add("arrived", 1) == kClients) (*store)->set("all", bytes_of("yes"));
      if (text_of((*store)->get("all", 60s)) == "yes") ok++;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(ok, kClients);
  EXPECT_TRUE(server->wait_until_idle(10s));
}

TEST(StoreServer, SurvivesRunningOutOfDescriptors) {
  const auto server = serve();
  const auto before = value_or_throw(join(server->endpoint()));
  // Connections that exist in the kernel's queue alone: the server cannot accept them.
  std::vector<Fd> knocking;
  for (int i = 0; i < 4; i++) knocking.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  std::vector<Fd> hoard;
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit low = old;
  low.rlim_cur = static_cast<rlim_t>(knocking.back().get()) + 8;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
  for (;;) {
    Fd fd(::dup(knocking.front().get()));
    if (!fd) break;
    hoard.push_back(std::move(fd));
  }
  const Address address = value_or_throw(resolve(server->endpoint())).front();
  for (const Fd& fd : knocking) EXPECT_EQ(::connect(fd.get(), address.get(), address.length), 0);
  before->set("still", bytes_of("there"));  // the joined ones are served meanwhile
  EXPECT_EQ(text_of(before->get("still", 5s)), "there");
  hoard.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  expect_works(server->endpoint());
}

TEST(StoreServer, AFullStoreIsAnErrorAndNotACrash) {
  const auto server = serve(any_port(), [](auto& o) { o.max_memory = 3u << 20; });
  const auto store = value_or_throw(join(server->endpoint()));
  const Bytes megabyte(1u << 20);
  store->set("a", megabyte);
  try {
    store->set("b", megabyte);
    store->set("c", megabyte);
    FAIL() << "no error";
  } catch (const SystemError& e) {
    SUCCEED();
  }
  store->erase("a");
  store->set("d", bytes_of("small"));
  EXPECT_EQ(text_of(store->get("d", 5s)), "small");
}

TEST(StoreServer, AClientThatDoesNotReadBlocksNobody) {
  const auto server = serve(Endpoint{"", 0, test::unique_name("slow")});
  const auto writer = value_or_throw(join(server->endpoint()));
  writer->set("large", Bytes(std::size_t{8} << 20));
  // Parked and never read from: the client's thread is stopped by its own timeout, the server by nothing.
  const Fd fd = connect_raw(server->endpoint());
  const auto handshake = test::store_handshake()->dial(PeerId{});
  for (int i = 0; i < 2; i++) {
    const Bytes out = handshake->take_output();
    ASSERT_GT(::send(fd.get(), out.data(), out.size(), MSG_NOSIGNAL), 0);
    ASSERT_TRUE(wait_for(fd.get(), POLLIN, in(5s)));
    std::byte buffer[512];
    const ssize_t n = ::recv(fd.get(), buffer, sizeof buffer, 0);
    std::size_t consumed = 0;
    handshake->feed({buffer, static_cast<std::size_t>(n)}, consumed);
  }
  for (int i = 0; i < 10; i++) {
    const Bytes request = encode({StoreOp::get, {"large"}, {}, {}});
    ASSERT_GT(::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL), 0);
  }
  expect_works(server->endpoint());
}

TEST(StoreServer, APortInUseIsNamedWithAdvice) {
  const auto server = serve();
  StoreServerOptions options;
  options.handshake = test::store_handshake();
  const auto second = StoreServer::start(server->endpoint(), std::move(options));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().error_number(), EADDRINUSE);
  EXPECT_THAT(second.status().message(), HasSubstr(std::to_string(server->endpoint().port)));
  EXPECT_THAT(second.status().message(), HasSubstr("choose another"));
}

TEST(StoreServer, AnAddressOfAnotherHostIsNamed) {
  StoreServerOptions options;
  options.handshake = test::store_handshake();
  const auto server = StoreServer::start({"192.0.2.1", 0, ""}, std::move(options));
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(server.status().message(), HasSubstr("not an address of this host"));
}

TEST(StoreServer, ANameThatLeadsToLoopbackIsServedEverywhere) {
  // "127.1" is not loopback by its looks, and resolves to it: as a host's own name does where /etc/hosts says 127.0.1.1.
  const auto everywhere = serve({"127.1", 0, ""}, [](auto& o) { o.any_address_if_not_ours = true; });
  expect_works({"127.0.0.2", everywhere->endpoint().port, ""});
  const auto narrow = serve({"127.1", 0, ""});
  expect_works({"127.0.0.1", narrow->endpoint().port, ""});
  EXPECT_FALSE(join({"127.0.0.2", narrow->endpoint().port, ""}, 100ms).ok());
}

TEST(StoreClient, WrongSecretIsToldAtOnceOnBothSides) {
  const auto server = serve();
  const auto start = std::chrono::steady_clock::now();
  const auto store = join(server->endpoint(), 30s, test::kOtherSecretText);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), Code::authentication);
  EXPECT_THAT(store.status().message(), HasSubstr("another job secret"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
  EXPECT_TRUE(server->wait_until_idle(Duration{0}));  // it never counted as a client
}

TEST(StoreClient, AnotherJobIsToldAtOnce) {
  const auto server = serve();
  const auto store = join(server->endpoint(), 30s, test::kSecretText, "another");
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), Code::authentication);
  EXPECT_THAT(store.status().message(), HasSubstr("another job"));
}

TEST(StoreClient, WaitsForAServerThatComesLater) {
  const Endpoint at{"", 0, test::unique_name("late")};
  std::thread client([&] { expect_works(at); });
  // Nobody serves the name yet; the client has tried at least once when it connects to a name that then appears.
  const auto server = serve(at);
  client.join();
}

TEST(StoreClient, NobodyThereIsAnErrorThatSaysWhatWasTried) {
  // A port that was free a moment ago.
  std::uint16_t port = 0;
  {
    const auto server = serve();
    port = server->endpoint().port;
  }
  const auto store = join({"localhost", port, ""}, 200ms);
  ASSERT_FALSE(store.ok());
  EXPECT_EQ(store.status().code(), Code::system);
  EXPECT_THAT(store.status().message(), HasSubstr("127.0.0.1:" + std::to_string(port)));
  EXPECT_THAT(store.status().message(), HasSubstr("Connection refused"));
  EXPECT_THAT(store.status().message(), HasSubstr("0.2 s"));
}

TEST(StoreClient, ANameWithoutAddressIsNamed) {
  const auto store = join({"no-such-host.invalid", 1, ""}, 100ms);
  ASSERT_FALSE(store.ok());
  EXPECT_THAT(store.status().message(), HasSubstr("no-such-host.invalid"));
}

TEST(StoreClient, AServerThatEndsIsNamed) {
  auto server = serve();
  const auto store = value_or_throw(join(server->endpoint()));
  std::thread waiter([&] {
    try {
      store->get("never", 60s);
      ADD_FAILURE() << "a value from nowhere";
    } catch (const SystemError& e) {
      EXPECT_THAT(e.what(), HasSubstr("lost it while asking for key \"never\""));
    }
  });
  // The waiter's request may be on its way, or parked: both end with the server.
  server.reset();
  waiter.join();
}

TEST(StoreClient, ASilentServerIsATimeoutThatNamesTheKey) {
  // Listens, and never answers: connections are made by the kernel.
  const Fd listener = value_or_throw(listen_on(value_or_throw(resolve(any_port())).front()));
  const auto address = value_or_throw(local_address(listener.get()));
  const auto at = value_or_throw(parse_endpoint(to_string(address)));
  const auto store = join(at, 300ms);
  ASSERT_FALSE(store.ok());
  EXPECT_THAT(store.status().message(), HasSubstr("does the port belong to another program?"));
}

}  // namespace
}  // namespace unisono::rendezvous
