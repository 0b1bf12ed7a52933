/// What knocks at a listening socket besides peers: scanners, slow clients, nobody in particular, and a shortage of descriptors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "arena.h"
#include "base/fd.h"
#include "transport/socket/reception.h"
#include "transport/tcp/address.h"

namespace unisono::transport::test {
namespace {

class Door : public testing::TestWithParam<Arena> {
 protected:
  /// A stranger's connection.
  static Fd knock(const Site& site) {
    const std::string address = site.transport->address();
    if (address[0] == '@') {
      sockaddr_un name{};
      name.sun_family = AF_UNIX;
      std::memcpy(name.sun_path + 1, address.data() + 1, address.size() - 1);
      Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size());
      EXPECT_EQ(::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), length), 0) << std::strerror(errno);
      return fd;
    }
    auto target = tcp::parse_address(address);
    EXPECT_TRUE(target.ok());
    Fd fd(::socket(target->family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(fd.get(), target->get(), target->length), 0) << std::strerror(errno);
    return fd;
  }
  static void expect_peers_still_come(Builder& builder, Site& site, Duration limit = 5s) {
    auto peer = builder.make(peer_id(1));
    peer->transport->dial(peer_id(0), site.transport->address(), peer->now() + limit);
    EXPECT_TRUE(peer->meanwhile(
        [&] {
          site.pump();
          return !peer->ups.empty() && !site.ups.empty();
        },
        limit))
        << (peer->failures.empty() ? "" : peer->failures.front().status.message());
  }
};
const Arena kDoors[] = {{"shm", "shm", false, {}, false}, {"tcp", "tcp", false, {}, false}};
INSTANTIATE_TEST_SUITE_P(Transports, Door, testing::ValuesIn(kDoors),
                         [](const auto& arena) { return std::string(arena.param.name); });

TEST_P(Door, DropsGarbage) {
  Builder builder(GetParam());
  auto site = builder.make(peer_id(0));
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const Fd stranger = knock(*site);
    const auto junk = seed == 0 ? std::vector<std::byte>() : pattern(seed * 307, seed);
    ::send(stranger.get(), junk.data(), junk.size(), MSG_NOSIGNAL);
    site->pump();
    if (seed % 2 == 0) site->pump();
  }
  EXPECT_TRUE(site->until([&] { return site->rejections.size() >= 39; }, 5s));
  EXPECT_TRUE(site->ups.empty());
  EXPECT_EQ(site->rejections.back().status.code(), Code::authentication);
  EXPECT_THAT(site->rejections.front().status.message(), testing::HasSubstr("refused"));
  expect_peers_still_come(builder, *site);
}

TEST_P(Door, DropsWhoSaysTheFirstWordsAndThenGarbage) {
  // The right handshake, then nonsense where shared memory should come; on tcp nonsense is the engine's to judge.
  Builder builder(GetParam());
  auto site = builder.make(peer_id(0));
  PasswordFactory factory(peer_id(1));
  const Fd stranger = knock(*site);
  const auto hello = factory.dial(peer_id(0))->take_output();
  ASSERT_EQ(::send(stranger.get(), hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
  const auto junk = pattern(500, 1);
  ::send(stranger.get(), junk.data(), junk.size(), MSG_NOSIGNAL);
  ASSERT_TRUE(site->until([&] { return !site->rejections.empty() || !site->ups.empty(); }, 5s));
  if (site->transport->segment()) {
    EXPECT_TRUE(site->ups.empty());
  } else {
    // Not a byte behind the handshake is lost.
    ASSERT_FALSE(site->ups.empty());
    auto link = site->next_link();
    std::vector<std::byte> in(500);
    EXPECT_TRUE(site->read_all(*link, in));
    EXPECT_TRUE(in == junk);
    site->drop(link);
  }
  expect_peers_still_come(builder, *site);
}

TEST_P(Door, ReadsAHandshakeThatComesByteByByte) {
  Builder builder(GetParam());
  auto site = builder.make(peer_id(0));
  PasswordFactory factory(peer_id(1), 41);
  const Fd stranger = knock(*site);
  for (const std::byte byte : factory.dial(peer_id(0))->take_output()) {
    ASSERT_EQ(::send(stranger.get(), &byte, 1, MSG_NOSIGNAL), 1);
    site->pump();
  }
  EXPECT_TRUE(site->until([&] { return !site->rejections.empty(); }, 5s));
  EXPECT_THAT(site->rejections.front().status.message(), testing::HasSubstr("wrong password"));
}

TEST_P(Door, EndsAHandshakeThatTakesTooLong) {
  Builder builder(GetParam());
  auto site = builder.make(peer_id(0));
  const Fd stranger = knock(*site);
  ASSERT_EQ(::send(stranger.get(), "x", 1, MSG_NOSIGNAL), 1);
  site->pump();
  EXPECT_LE(site->transport->next_deadline(), site->now() + Reception::kHandshakeTime);
  site->skew = Reception::kHandshakeTime / 2;
  site->pump();
  EXPECT_TRUE(site->rejections.empty());
  site->skew = Reception::kHandshakeTime + 100ms;
  site->pump();
  ASSERT_EQ(site->rejections.size(), 1u);
  EXPECT_THAT(site->rejections.front().status.message(), testing::HasSubstr("no complete handshake"));
  char byte = 0;
  EXPECT_LE(::recv(stranger.get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_EQ(site->transport->next_deadline(), TimePoint::max());
}

TEST_P(Door, HoldsFewStrangersAndLetsPeersPast) {
  Builder builder(GetParam());
  auto site = builder.make(peer_id(0));
  const int before = open_descriptors();
  std::vector<Fd> strangers;
  for (int i = 0; i < 200; ++i) strangers.push_back(knock(*site));
  for (int i = 0; i < 50; ++i) site->pump();
  EXPECT_LE(open_descriptors() - before - 200, 64);
  expect_peers_still_come(builder, *site, 10s);
}

TEST_P(Door, SurvivesAShortageOfDescriptors) {
  Builder builder(GetParam());
  auto site = builder.make(peer_id(0));
  auto peer = builder.make(peer_id(1));
  peer->transport->dial(peer_id(0), site->transport->address(), peer->now() + 20s);
  peer->pump();
  // Nothing is left for accept() now.
  rlimit old{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &old), 0);
  rlimit tight = old;
  tight.rlim_cur = 3;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  for (int i = 0; i < 20; ++i) site->pump();
  EXPECT_LT(site->transport->next_deadline(), site->now() + 1s) << "it must look again";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_TRUE(peer->meanwhile(
      [&] {
        site->pump();
        return !peer->ups.empty() && !site->ups.empty();
      },
      10s));
}

TEST_P(Door, RefusesAddressesOfAnotherKind) {
  Builder builder(GetParam());
  auto site = builder.make(peer_id(0));
  for (const char* address :
       {"", "nonsense", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:70000", "a.example:80", "[::1]", "@"}) {
    site->failures.clear();
    site->transport->dial(peer_id(1), address, site->now() + 10s);
    ASSERT_TRUE(site->until([&] { return !site->failures.empty(); }, 1s)) << address;
    EXPECT_EQ(site->failures.front().status.code(), Code::invalid_argument) << address;
  }
}

TEST(TcpAddress, IsWrittenAsItIsRead) {
  for (const char* text : {"127.0.0.1:80", "[::1]:41000", "10.1.2.3:65535", "[2001:db8::7]:1"}) {
    auto address = tcp::parse_address(text);
    ASSERT_TRUE(address.ok()) << address.status().message();
    EXPECT_EQ(to_string(*address), text);
  }
  EXPECT_FALSE(tcp::parse_address("::1:80").ok());
}

TEST(Tcp, ListensOnOneAddressOnly) {
  auto poller = make_epoll_poller();
  transport::Setup setup;
  setup.handshake = std::make_shared<PasswordFactory>(peer_id(0));
  for (const char* address : {"0.0.0.0", "::", "localhost", "", "203.0.113.77"}) {
    setup.interface_addresses = {address};
    EXPECT_FALSE(find_transport("tcp")->make(setup, *poller).ok()) << address;
  }
}

TEST(Tcp, LinksTakeThePeersAddressesByTurns) {
  const auto make = [](int side, std::vector<std::string> addresses) {
    auto poller = make_epoll_poller();
    transport::Setup setup;
    setup.self = peer_id(side);
    setup.handshake = std::make_shared<PasswordFactory>(setup.self);
    setup.interface_addresses = std::move(addresses);
    auto made = find_transport("tcp")->make(setup, *poller);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::make_unique<Site>(std::move(poller), std::move(made).value(), setup.self);
  };
  const auto far = make(1, {"127.0.0.1", "127.0.0.2"}), near = make(0, {"127.0.0.1"});
  const std::string address = far->transport->address();
  EXPECT_EQ(near->transport->paths(address), 2);
  EXPECT_EQ(far->transport->paths(near->transport->address()), 1);
  for (const char* expected : {"tcp to 127.0.0.1:", "tcp to 127.0.0.2:", "tcp to 127.0.0.1:"}) {
    near->transport->dial(peer_id(1), address, near->now() + 20s);
    ASSERT_TRUE(near->meanwhile([&] {
      far->pump();
      return !near->ups.empty();
    }));
    EXPECT_THAT(near->ups.front().link->describe(), testing::StartsWith(expected));
    near->ups.clear();
  }
}

TEST(Tcp, SpeaksIpv6) {
  auto poller = make_epoll_poller();
  transport::Setup setup;
  setup.interface_addresses = {"::1"};
  setup.self = peer_id(0);
  setup.handshake = std::make_shared<PasswordFactory>(peer_id(0));
  auto made = find_transport("tcp")->make(setup, *poller);
  if (!made) GTEST_SKIP() << "no IPv6 here: " << made.status().message();
  Site site(std::move(poller), std::move(made).value(), peer_id(0));
  auto other_poller = make_epoll_poller();
  setup.self = peer_id(1);
  setup.handshake = std::make_shared<PasswordFactory>(peer_id(1));
  auto other = find_transport("tcp")->make(setup, *other_poller);
  ASSERT_TRUE(other.ok());
  Site peer(std::move(other_poller), std::move(other).value(), peer_id(1));
  peer.transport->dial(peer_id(0), site.transport->address(), peer.now() + 5s);
  EXPECT_TRUE(peer.meanwhile([&] {
    site.pump();
    return !peer.ups.empty() && !site.ups.empty();
  }));
  EXPECT_THAT(peer.next_link()->describe(), testing::HasSubstr("[::1]:"));
}

TEST(Transports, AreInATable) {
  EXPECT_EQ(transports().size(), 2u);
  EXPECT_EQ(find_transport("shm")->name, "shm");
  EXPECT_TRUE(find_transport("shm")->same_host_only);
  EXPECT_FALSE(find_transport("tcp")->same_host_only);
  EXPECT_EQ(find_transport("pigeon"), nullptr);
}

}  // namespace
}  // namespace unisono::transport::test
