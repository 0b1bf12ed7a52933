/// How much memory may still be taken, from files as Linux has them.

#include "base/free_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace unisono {
namespace {

namespace fs = std::filesystem;

class FreeMemory : public testing::Test {
 protected:
  FreeMemory() : root_(fs::path(testing::TempDir()) / ("free_memory_" + std::to_string(::getpid()))) {}
  ~FreeMemory() override { fs::remove_all(root_); }
  void file(const fs::path& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
};

TEST_F(FreeMemory, OfTheMachine) {
  EXPECT_EQ(free_memory(root_), std::numeric_limits<std::uint64_t>::max()) << "nothing is known";
  file("proc/meminfo", "MemTotal:  24684404 kB\nMemFree: 100 kB\nMemAvailable:   23000000 kB\nBuffers: 1 kB\n");
  EXPECT_EQ(free_memory(root_), 23'000'000ULL * 1024);
}

TEST_F(FreeMemory, OfACgroup) {
  file("proc/meminfo", "MemAvailable: 1000000 kB\n");
  file("proc/self/cgroup", "0::/job/step\n");
  file("sys/fs/cgroup/job/step/memory.max", "max\n");
  file("sys/fs/cgroup/job/step/memory.current", "5000\n");
  EXPECT_EQ(free_memory(root_), 1'024'000'000u) << "no limit";
  file("sys/fs/cgroup/job/memory.max", "100000000\n");
  file("sys/fs/cgroup/job/memory.current", "70000000\n");
  file("sys/fs/cgroup/job/memory.stat", "anon 20000000\ninactive_file 10000000\nactive_file 7\n");
  EXPECT_EQ(free_memory(root_), 40'000'000u) << "the limit of the group above it, less what is taken and is no cache";
  file("sys/fs/cgroup/job/step/memory.max", "3000\n");
  EXPECT_EQ(free_memory(root_), 0u) << "more is taken than the limit, which was lowered";
}

TEST_F(FreeMemory, InAContainer) {
  file("proc/self/cgroup", "0::/\n");
  file("sys/fs/cgroup/memory.max", "1000\n");
  file("sys/fs/cgroup/memory.current", "400\n");
  EXPECT_EQ(free_memory(root_), 600u);
}

TEST_F(FreeMemory, OfACgroupOfTheFirstVersion) {
  file("proc/self/cgroup", "12:cpu,cpuacct:/a\n4:memory:/a\n0::/b\n");
  file("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1000\n");
  file("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "900\n");
  file("sys/fs/cgroup/memory/a/memory.stat", "cache 800\ntotal_inactive_file 300\n");
  EXPECT_EQ(free_memory(root_), 400u);
}

TEST(FreeMemoryHere, IsSomething) { EXPECT_GT(free_memory(), 1u << 20); }

}  // namespace
}  // namespace unisono
