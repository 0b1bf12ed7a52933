/// The secret and where it comes from.

#include "rendezvous/secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <fstream>

#include "rendezvous/helpers.h"
#include "rendezvous/secret_door.h"
#include "rendezvous/secret_source.h"

namespace unisono::rendezvous {
namespace {

using test::environment_of;
using test::kSecretText;
using ::testing::HasSubstr;

bool same(const Secret& a, const Secret& b) { return std::ranges::equal(a.bytes(), b.bytes()); }

TEST(Secret, TextGoesThereAndBack) {
  const Secret s = test::secret();
  EXPECT_EQ(s.bytes().size(), 32u);
  EXPECT_EQ(s.reveal(), kSecretText);
  EXPECT_TRUE(same(s, test::secret("  " + std::string(kSecretText) + "\n")));
  EXPECT_TRUE(test::secret("").empty());
}

TEST(Secret, GeneratedOnesDiffer) {
  const auto a = Secret::generate(), b = Secret::generate();
  EXPECT_EQ(a->bytes().size(), 32u);
  EXPECT_FALSE(same(*a, *b));
}

TEST(Secret, AssignmentAndMoveKeepTheValue) {
  Secret a = test::secret(), b;
  b = a;
  EXPECT_TRUE(same(a, b));
  Secret c = std::move(b);
  EXPECT_TRUE(same(a, c));
  a = Secret{};
  EXPECT_TRUE(a.empty());
}

TEST(Secret, WhatIsNoSecretIsRefused) {
  for (const char* text : {"abc", "0g112233445566778899aabbccddeeff", "00", "00112233445566778899aabbccddee"})
    EXPECT_FALSE(Secret::parse(text).ok()) << text;
}

class SecretFile : public ::testing::Test {
 protected:
  test::TemporaryDirectory directory_;
  std::string path_ = directory_.file("secret");
  void write(std::string_view text, mode_t mode) {
    std::ofstream(path_) << text;
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
  }
  Result<Secret> read() { return read_secret(environment_of({{"UNISONO_SECRET_FILE", path_}})); }
};

TEST_F(SecretFile, IsRead) {
  write(fmt::format("{}\n", kSecretText), 0600);
  const auto s = read();
  ASSERT_TRUE(s.ok()) << s.status().message();
  EXPECT_EQ(s->reveal(), kSecretText);
}

TEST_F(SecretFile, OpenToOthersIsRefused) {
  for (const mode_t mode : {0644, 0640, 0602}) {
    write(kSecretText, mode);
    const auto s = read();
    ASSERT_FALSE(s.ok());
    EXPECT_THAT(s.status().message(), HasSubstr("chmod 600"));
    EXPECT_THAT(s.status().message(), HasSubstr(path_));
  }
}

TEST_F(SecretFile, MissingEmptyOrOfAnotherKindIsRefused) {
  EXPECT_THAT(read().status().message(), HasSubstr("No such file"));
  write("", 0600);
  EXPECT_THAT(read().status().message(), HasSubstr("empty"));
  path_ = "/dev/null";
  EXPECT_THAT(read().status().message(), HasSubstr("not a regular file"));
}

TEST(SecretDescriptor, CanBeReadAgainAndIsClosedOnExec) {
  const Fd fd = value_or_throw(make_secret_fd(test::secret()));
  const int inherited = ::dup(fd.get());
  ASSERT_EQ(::fcntl(inherited, F_GETFD) & FD_CLOEXEC, 0);
  const auto environment =
      environment_of({{"UNISONO_SECRET_FD", std::to_string(inherited)}, {"UNISONO_SECRET", "ignored"}});
  for (int i = 0; i < 2; i++) {
    const auto s = read_secret(environment);
    ASSERT_TRUE(s.ok()) << s.status().message();
    EXPECT_EQ(s->reveal(), kSecretText);
  }
  EXPECT_EQ(::fcntl(inherited, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  ::close(inherited);
}

TEST(SecretDescriptor, TheMemfdCannotBeChanged) {
  const Fd fd = value_or_throw(make_secret_fd(test::secret()));
  EXPECT_EQ(::pwrite(fd.get(), "00", 2, 0), -1);
  EXPECT_EQ(::ftruncate(fd.get(), 0), -1);
}

TEST(SecretDescriptor, APipeIsReadAndClosed) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ASSERT_EQ(::write(ends[1], kSecretText.data(), kSecretText.size()), static_cast<ssize_t>(kSecretText.size()));
  ::close(ends[1]);
  const auto s = read_secret(environment_of({{"UNISONO_SECRET_FD", std::to_string(ends[0])}}));
  ASSERT_TRUE(s.ok()) << s.status().message();
  EXPECT_EQ(s->reveal(), kSecretText);
  EXPECT_EQ(::fcntl(ends[0], F_GETFD), -1);
}

TEST(SecretDescriptor, TheLaunchersDoorStandsInForOneThatAWrapperClosedOrReused) {
  const auto door = value_or_throw(SecretDoor::open(test::secret(), Logger()));
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  for (const std::string& fd : {std::string("987654"), std::to_string(ends[0])}) {
    const auto s = read_secret(environment_of({{"UNISONO_SECRET_FD", fd}, {"UNISONO_SECRET_DOOR", door.name()}}));
    ASSERT_TRUE(s.ok()) << s.status().message();
    EXPECT_EQ(s->reveal(), kSecretText);
  }
  EXPECT_NE(::fcntl(ends[0], F_GETFD), -1) << "somebody else's descriptor";
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(SecretDescriptor, AClosedDoorIsNamed) {
  const auto s =
      read_secret(environment_of({{"UNISONO_SECRET_FD", "987654"}, {"UNISONO_SECRET_DOOR", "unisono-gone"}}));
  ASSERT_FALSE(s.ok());
  EXPECT_THAT(s.status().message(), HasSubstr("UNISONO_SECRET_FD=987654"));
  EXPECT_THAT(s.status().message(), HasSubstr("unisono-gone"));
}

}  // namespace
}  // namespace unisono::rendezvous
