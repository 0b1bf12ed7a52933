/// What is kept on disk comes back as it was, or not at all.

#include "tuning/record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace unisono::tuning {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Records : public ::testing::Test {
 protected:
  Records() {
    std::string pattern = (fs::temp_directory_path() / "unisono-record-XXXXXX").string();
    cache_ = ::mkdtemp(pattern.data());
  }
  ~Records() override { fs::remove_all(cache_); }

  static Record record() {
    return {"unisono 1 over shm\nranks 0x2\n",
            "2026-01-02T03:04:05Z",
            "a test",
            "",
            "all_reduce@shm[2]:0-=ring",
            "[]\n",
            2};
  }
  fs::path file() const { return file_of(cache_, record().topology); }
  mode_t mode(const fs::path& path) const {
    struct stat about{};
    EXPECT_EQ(::stat(path.c_str(), &about), 0);
    return about.st_mode & 0777;
  }
  void spoil(const std::string& text) const { std::ofstream(file()) << text; }

  std::string cache_;
};

TEST_F(Records, ComeBack) {
  ASSERT_TRUE(write(file(), record()).ok());
  const auto found = read(file(), record().topology, true);
  ASSERT_TRUE(found.ok()) << found.status().message();
  ASSERT_TRUE(found->has_value());
  EXPECT_EQ((*found)->topology, record().topology);
  EXPECT_EQ((*found)->made, record().made);
  EXPECT_EQ((*found)->by, record().by);
  EXPECT_EQ((*found)->rules, record().rules);
  EXPECT_EQ((*found)->measured, record().measured);
  EXPECT_EQ((*found)->streams, record().streams);
  EXPECT_EQ((*read(file(), record().topology))->measured, "");
}

TEST_F(Records, AreTheirOwnersAlone) {
  ASSERT_TRUE(write(file(), record()).ok());
  EXPECT_EQ(mode(folder_of(cache_)), 0700u);
  EXPECT_EQ(mode(file()), 0600u);
  ::chmod(file().c_str(), 0666);
  const auto found = read(file(), record().topology);
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.status().message(), HasSubstr("nobody else can write"));
}

TEST_F(Records, NoneIsNoError) {
  EXPECT_FALSE(read(file(), record().topology)->has_value());
  EXPECT_TRUE(read_all(cache_).empty());
  EXPECT_TRUE(read_all("").empty());
}

TEST_F(Records, DamagedOnesAreRefused) {
  ASSERT_TRUE(write(file(), record()).ok());
  for (const std::string text : {"", "{", "[]", "{\"format\": 1}", "{\"format\": \"x\"}", "null"}) {
    spoil(text);
    const auto found = read(file(), record().topology);
    ASSERT_FALSE(found.ok()) << text;
    EXPECT_THAT(found.status().message(), HasSubstr("damaged"));
  }
  spoil("{\"format\": 99}");
  EXPECT_THAT(read(file(), record().topology).status().message(), HasSubstr("has format 99"));
}

TEST_F(Records, OfAnotherTopologyAreRefused) {
  ASSERT_TRUE(write(file(), record()).ok());
  EXPECT_THAT(read(file(), "another").status().message(), HasSubstr("another topology"));
}

TEST_F(Records, AllOfThemNewestFirst) {
  for (const char* made : {"2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z", "2026-02-01T00:00:00Z"}) {
    Record r = record();
    r.topology = r.made = made;
    ASSERT_TRUE(write(file_of(cache_, r.topology), r).ok());
  }
  ASSERT_TRUE(write(file(), record()).ok());
  spoil("damaged");
  std::vector<std::string> made;
  for (const Record& r : read_all(cache_)) made.push_back(r.made.substr(0, 7));
  EXPECT_THAT(made, ::testing::ElementsAre("2026-03", "2026-02", "2026-01"));
}

TEST_F(Records, AReaderNeverSeesHalfOfOne) {
  Record large = record();
  large.rules = std::string(100'000, 'x');
  ASSERT_TRUE(write(file(), large).ok());
  std::atomic<bool> over{false};
  std::thread writer([&] {
    for (int i = 0; i < 200; i++) ASSERT_TRUE(write(file(), i % 2 == 0 ? record() : large).ok());
    over = true;
  });
  while (!over) {
    const auto found = read(file(), record().topology);
    ASSERT_TRUE(found.ok()) << found.status().message();
    ASSERT_TRUE((*found)->rules == large.rules || (*found)->rules == record().rules);
  }
  writer.join();
  for (const auto& entry : fs::directory_iterator(folder_of(cache_)))
    EXPECT_EQ(entry.path().extension(), ".json") << "left behind";
}

TEST_F(Records, ThatCannotBeWrittenSayWhy) {
  std::ofstream(cache_ + "/file") << "x";
  const Status failed = write(file_of(cache_ + "/file", "t"), record());
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(failed.message(), HasSubstr(cache_ + "/file"));
}

}  // namespace
}  // namespace unisono::tuning
