/// What the system makes of a request to place memory.

#include "base/memory_binder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace unisono {
namespace {

constexpr std::size_t kBytes = 64 << 10;

/// Shared memory without a file, as segments are.
class Area {
 public:
  Area() {
    const int fd = ::memfd_create("unisono-test", MFD_CLOEXEC);
    EXPECT_EQ(::ftruncate(fd, kBytes), 0);
    base_ = static_cast<std::byte*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    ::close(fd);
  }
  ~Area() { ::munmap(base_, kBytes); }
  Area(const Area&) = delete;
  Area& operator=(const Area&) = delete;
  std::byte* base() const { return base_; }

 private:
  std::byte* base_ = nullptr;
};

TEST(MemoryBinder, ThePolicyAndThePagesAreOfTheNodeThatWasAskedFor) {
  const Area area;
  const Status bound = make_memory_binder()->prefer(area.base(), kBytes, 0);
  if (bound.error_number() == EPERM || bound.error_number() == ENOSYS)
    GTEST_SKIP() << "SKIPPED: memory cannot be bound here: " << bound.message();
  ASSERT_TRUE(bound.ok()) << bound.message();

  int mode = -1;
  unsigned long nodes[16] = {};
  ASSERT_EQ(::syscall(SYS_get_mempolicy, &mode, nodes, sizeof nodes * 8, area.base(), MPOL_F_ADDR), 0)
      << std::strerror(errno);
  EXPECT_EQ(mode, MPOL_PREFERRED);
  EXPECT_EQ(nodes[0], 1ul);

  std::memset(area.base(), 1, kBytes);
  void* page = area.base();
  int node = -1;
  ASSERT_EQ(::syscall(SYS_move_pages, 0, 1ul, &page, nullptr, &node, 0), 0) << std::strerror(errno);
  EXPECT_EQ(node, 0);
}

TEST(MemoryBinder, ANodeThatIsNotThereIsAnErrorThatNamesIt) {
  const Area area;
  const Status bound = make_memory_binder()->prefer(area.base(), kBytes, 1023);
  ASSERT_FALSE(bound.ok());
  EXPECT_THAT(bound.message(), testing::HasSubstr("NUMA node 1023"));
}

}  // namespace
}  // namespace unisono
