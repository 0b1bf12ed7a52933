/// Whether a device may know where pages are, from files as Linux has them.

#include "base/device_memory.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <fstream>

namespace unisono {
namespace {

namespace fs = std::filesystem;

class DeviceMemory : public testing::Test {
 protected:
  DeviceMemory() : root_(fs::path(testing::TempDir()) / ("device_memory_" + std::to_string(::getpid()))) {
    fs::create_directories(descriptors());
    status("0");
  }
  ~DeviceMemory() override { fs::remove_all(root_); }
  fs::path descriptors() const { return root_ / "proc/self/fd"; }
  void status(const std::string& pinned) const {
    std::ofstream(root_ / "proc/self/status")
        << "VmLck:\t       8 kB\nVmPin:\t       " << pinned << " kB\nVmHWM:\t 17 kB\n";
  }
  fs::path root_;
};

TEST_F(DeviceMemory, NoneUsually) {
  fs::create_symlink("/dev/null", descriptors() / "0");
  fs::create_symlink("/dev/zero", descriptors() / "1");
  fs::create_symlink("/dev/ptmx", descriptors() / "2");
  fs::create_symlink("pipe:[17]", descriptors() / "3");
  std::ofstream(root_ / "file") << "text";
  fs::create_symlink(root_ / "file", descriptors() / "4");
  EXPECT_EQ(device_with_memory(root_), "");
}

TEST_F(DeviceMemory, OfPinnedPages) {
  status("64");
  EXPECT_NE(device_with_memory(root_).find("pinned"), std::string::npos);
}

TEST_F(DeviceMemory, OfADevice) {
  const fs::path gpu = root_ / "gpu";
  if (::mknod(gpu.c_str(), S_IFCHR | 0600, makedev(195, 0)) != 0) GTEST_SKIP() << "only root can make a device's file";
  fs::create_symlink("/dev/null", descriptors() / "0");
  EXPECT_EQ(device_with_memory(root_), "");
  fs::create_symlink(gpu, descriptors() / "1");
  EXPECT_NE(device_with_memory(root_).find("device open (" + gpu.string()), std::string::npos);
}

TEST_F(DeviceMemory, WhereNobodyCanTell) {
  fs::remove_all(descriptors());
  EXPECT_NE(device_with_memory(root_).find("nobody can tell"), std::string::npos);
}

}  // namespace
}  // namespace unisono
