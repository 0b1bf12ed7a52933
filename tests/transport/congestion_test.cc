#include "transport/tcp/congestion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <string>

#include "base/fd.h"

namespace unisono::transport::tcp {
namespace {

using namespace std::chrono_literals;

Fd new_socket() { return Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

/// As a new socket of a system whose congestion control is `name`; none where this one does not let us.
Fd socket_with(const std::string& name) {
  Fd fd = new_socket();
  if (::setsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name.c_str(), static_cast<socklen_t>(name.size())) != 0)
    return {};
  return fd;
}

TEST(Congestion, KnowsTheSystemsAndLeavesTheSocketAsItWas) {
  const Fd fd = new_socket();
  const std::string before = congestion_control(fd.get());
  ASSERT_FALSE(before.empty());
  for (const char* wanted : {"", "reno"}) {
    const auto congestion = Congestion::create(fd.get(), wanted);
    ASSERT_TRUE(congestion.ok()) << congestion.status().message();
    EXPECT_EQ(congestion->system(), before);
    EXPECT_EQ(congestion_control(fd.get()), before);
  }
}

TEST(Congestion, OneThatTheSystemDoesNotHaveIsAnError) {
  const Fd fd = new_socket();
  const auto congestion = Congestion::create(fd.get(), "no_such");
  ASSERT_FALSE(congestion.ok());
  EXPECT_THAT(congestion.status().message(), ::testing::HasSubstr("UNISONO_TCP_CONGESTION is \"no_such\""));
  EXPECT_EQ(congestion.status().code(), Code::system);
}

TEST(Congestion, TheOneThatWasAskedForIsEverybodys) {
  const Fd first = new_socket();
  const auto congestion = Congestion::create(first.get(), "reno");
  ASSERT_TRUE(congestion.ok());
  for (const bool loopback : {true, false}) {
    const Fd fd = new_socket();
    congestion->begin(fd.get(), loopback);
    EXPECT_FALSE(congestion->settle(fd.get(), loopback, 20ms));
    EXPECT_EQ(congestion_control(fd.get()), "reno");
  }
}

TEST(Congestion, OneThatDoesNotPaceStaysBetweenHosts) {
  const Fd first = socket_with("cubic");
  if (!first) GTEST_SKIP() << "SKIPPED: this system lets nobody choose cubic";
  const auto congestion = Congestion::create(first.get(), "");
  ASSERT_TRUE(congestion.ok());
  const Fd far = socket_with("cubic"), local = socket_with("cubic");
  congestion->begin(far.get(), false);
  EXPECT_FALSE(congestion->settle(far.get(), false, 10us));
  EXPECT_EQ(congestion_control(far.get()), "cubic");
  congestion->begin(local.get(), true);
  EXPECT_FALSE(congestion->settle(local.get(), true, 10us));
  EXPECT_EQ(congestion_control(local.get()), "reno");
}

TEST(Congestion, OneThatPacesIsForLongWays) {
  const Fd first = socket_with("bbr");
  if (!first) GTEST_SKIP() << "SKIPPED: this system has no BBR, or lets nobody choose it";
  const auto congestion = Congestion::create(first.get(), "");
  ASSERT_TRUE(congestion.ok());
  EXPECT_EQ(congestion->system(), "bbr");
  const auto after = [&](bool loopback, Duration round_trip) {
    const Fd fd = socket_with("bbr");
    congestion->begin(fd.get(), loopback);
    EXPECT_EQ(congestion_control(fd.get()), "reno") << "a socket that was once paced stays so";
    const bool near = congestion->settle(fd.get(), loopback, round_trip);
    const std::string found = congestion_control(fd.get());
    EXPECT_EQ(near, !loopback && found == "reno");
    return found;
  };
  EXPECT_EQ(after(false, 20us), "reno");
  EXPECT_EQ(after(false, 999us), "reno");
  EXPECT_EQ(after(false, 1ms), "bbr");
  EXPECT_EQ(after(false, 0us), "bbr") << "who knows";
  EXPECT_EQ(after(true, 20us), "reno");
  EXPECT_EQ(after(true, 0us), "reno");
}

}  // namespace
}  // namespace unisono::transport::tcp
