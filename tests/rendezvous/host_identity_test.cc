/// When two processes can share memory.

#include "rendezvous/host_identity.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/endpoint.h"

namespace unisono::rendezvous {
namespace {

TEST(HostIdentity, TextGoesThereAndBackWithoutSpaces) {
  const auto id = this_host();
  ASSERT_TRUE(id.ok()) << id.status().message();
  const std::string text = to_text(*id);
  EXPECT_EQ(text.find(' '), std::string::npos);
  const auto back = parse_host_identity(text);
  ASSERT_TRUE(back.ok()) << back.status().message();
  EXPECT_EQ(*back, *id);
  EXPECT_EQ(id->pid, ::getpid());
}

TEST(HostIdentity, StrangeHostNamesDoNotBreakTheText) {
  auto id = *this_host();
  id.host = "a b,c\n";
  const auto back = parse_host_identity(to_text(id));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->host, "a_b_c_");
}

TEST(HostIdentity, EveryCutTextIsRefusedOrAnotherValue) {
  const auto id = *this_host();
  const std::string text = to_text(id);
  for (std::size_t keep = 0; keep < text.size(); keep++) {
    const auto back = parse_host_identity(text.substr(0, keep));
    if (back.ok()) {
      EXPECT_FALSE(*back == id);
    }
  }
}

TEST(HostIdentity, WhatMustBeEqualToShareMemory) {
  const HostIdentity a = *this_host();
  EXPECT_TRUE(same_host_and_network(a, a));
  HostIdentity b = a;
  b.pid++;
  b.host = "container-2";
  EXPECT_TRUE(same_host_and_network(a, b));
  for (auto change : {+[](HostIdentity& i) { i.boot_id = "other"; }, +[](HostIdentity& i) { i.uid++; },
                      +[](HostIdentity& i) { i.pid_namespace++; }, +[](HostIdentity& i) { i.user_namespace++; },
                      +[](HostIdentity& i) { i.pid_namespace = 0; }}) {
    HostIdentity c = a;
    change(c);
    EXPECT_FALSE(same_host(a, c));
  }
  b.net_namespace++;
  EXPECT_TRUE(same_host(a, b));
  EXPECT_FALSE(same_host_and_network(a, b));
}

TEST(HostIdentity, ANewNamespaceIsSeen) {
  const HostIdentity before = *this_host();
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWNET | CLONE_NEWUSER) != 0) ::_exit(77);
    const auto after = this_host();
    ::_exit(after.ok() && after->net_namespace != before.net_namespace && !same_host(before, *after) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(status, 0);
}

TEST(Endpoint, TextGoesThereAndBack) {
  for (const char* text : {"10.0.0.1:29500", "[fe80::1]:1", "host.example:65535", "unix:@name"}) {
    const auto e = parse_endpoint(text);
    ASSERT_TRUE(e.ok()) << e.status().message();
    EXPECT_EQ(to_string(*e), text);
  }
}

TEST(Endpoint, WhatIsNoAddressIsRefused) {
  for (const char* text :
       {"", "host", ":1", "host:", "host:x", "host:65536", "host:-1", "fe80::1:5", "unix:", "unix:@", "unix:/path"})
    EXPECT_FALSE(parse_endpoint(text).ok()) << text;
}

TEST(Endpoint, LoopbackIsKnownWithoutANameServer) {
  for (const char* host : {"localhost", "127.0.0.1", "127.9.8.7", "::1"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"", "128.0.0.1", "127.0.0.1.example.com", "0.0.0.0", "localhost2", "::2"})
    EXPECT_FALSE(is_loopback(host)) << host;
}

}  // namespace
}  // namespace unisono::rendezvous
