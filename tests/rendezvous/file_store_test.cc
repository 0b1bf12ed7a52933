/// What can happen to the file behind a file store.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <fstream>

#include "base/fd.h"
#include "rendezvous/file_log.h"
#include "rendezvous/helpers.h"
#include "unisono/error.hpp"

namespace unisono::rendezvous {
namespace {

using namespace std::chrono_literals;
using test::bytes_of;
using test::text_of;
using ::testing::HasSubstr;

class FileStoreTest : public ::testing::Test {
 protected:
  test::TemporaryDirectory directory_;
  std::string path_ = directory_.file("store");

  off_t size() const {
    struct stat s{};
    EXPECT_EQ(::stat(path_.c_str(), &s), 0);
    return s.st_size;
  }
};

TEST_F(FileStoreTest, IsReadableByItsUserAlone) {
  make_file_store(path_);
  struct stat s{};
  ASSERT_EQ(::stat(path_.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777, 0600u);
}

TEST_F(FileStoreTest, AForeignFileIsRefusedAndLeftAlone) {
  std::ofstream(path_) << "somebody's thesis";
  EXPECT_THROW(make_file_store(path_), InvalidArgument);
  std::ifstream file(path_);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "somebody's thesis");
}

TEST_F(FileStoreTest, ADirectoryThatIsNotThereIsNamed) {
  try {
    make_file_store(directory_.file("no/such/place"));
    FAIL() << "no error";
  } catch (const SystemError& e) {
    EXPECT_THAT(e.what(), HasSubstr("no/such/place"));
    EXPECT_THAT(e.what(), HasSubstr("No such file"));
  }
}

TEST_F(FileStoreTest, ASymbolicLinkIsNotFollowed) {
  ASSERT_EQ(::symlink("/tmp/unisono-should-not-appear", path_.c_str()), 0);
  EXPECT_THROW(make_file_store(path_), SystemError);
}

TEST_F(FileStoreTest, EveryHalfWrittenTailIsCutOff) {
  const auto store = make_file_store(path_);
  store->set("kept", bytes_of("1"));
  const off_t before = size();
  store->set("torn", bytes_of("a value of some length"));
  const off_t after = size();
  Bytes whole(static_cast<std::size_t>(after));
  {
    const Fd fd(::open(path_.c_str(), O_RDONLY));
    ASSERT_EQ(::pread(fd.get(), whole.data(), whole.size(), 0), after);
  }
  for (off_t keep = before; keep < after; keep++) {
    const std::string torn = directory_.file("torn" + std::to_string(keep));
    {
      const Fd fd(::open(torn.c_str(), O_WRONLY | O_CREAT, 0600));
      ASSERT_EQ(::write(fd.get(), whole.data(), static_cast<std::size_t>(keep)), keep);
    }
    const auto again = make_file_store(torn);
    EXPECT_EQ(text_of(again->get("kept", Duration{0})), "1");
    const std::vector<std::string> keys{"torn"};
    EXPECT_FALSE(again->check(keys)) << keep;
    again->set("after", bytes_of("2"));
    EXPECT_EQ(text_of(make_file_store(torn)->get("after", Duration{0})), "2");
  }
}

TEST_F(FileStoreTest, AFlippedByteIsNoValue) {
  const auto store = make_file_store(path_);
  store->set("k", bytes_of("value"));
  const Fd fd(::open(path_.c_str(), O_RDWR));
  ASSERT_EQ(::pwrite(fd.get(), "X", 1, size() - 1), 1);
  const std::vector<std::string> keys{"k"};
  EXPECT_FALSE(make_file_store(path_)->check(keys));
}

TEST_F(FileStoreTest, AFileReplacedUnderneathIsAnError) {
  const auto store = make_file_store(path_);
  store->set("k", bytes_of("value"));
  ASSERT_EQ(::unlink(path_.c_str()), 0);
  try {
    store->set("k", bytes_of("other"));
    FAIL() << "no error";
  } catch (const SystemError& e) {
    EXPECT_THAT(e.what(), HasSubstr("replaced"));
  }
}

TEST_F(FileStoreTest, AHeldLockIsATimeoutAndNotAHang) {
  FileLog log(path_);
  ASSERT_TRUE(log.transact([](auto, auto, auto) {}, [] { return Status(); }, 1s).ok());
  const Fd holder(::open(path_.c_str(), O_RDWR));
  ASSERT_EQ(::flock(holder.get(), LOCK_EX), 0);
  const Status s = log.transact([](auto, auto, auto) {}, [] { return Status(); }, 50ms);
  EXPECT_EQ(s.code(), Code::timeout);
  EXPECT_THAT(s.message(), HasSubstr("lock"));
}

TEST_F(FileStoreTest, ProcessesCountRight) {
  constexpr int kProcesses = 4, kRounds = 100;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; p++) {
    const pid_t pid = ::fork();
    if (pid == 0) {
      try {
        const auto store = make_file_store(path_);
        for (int i = 0; i < kRounds; i++) store->add("n", 1);
        ::_exit(0);
      } catch (...) {
        ::_exit(1);
      }
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(make_file_store(path_)->add("n", 0), kProcesses * kRounds);
}

}  // namespace
}  // namespace unisono::rendezvous
