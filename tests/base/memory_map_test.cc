/// What the system says is mapped, against what was mapped.

#include "base/memory_map.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <string>

#include "base/fd.h"
#include "base/map_query.h"

namespace unisono {
namespace {

constexpr std::size_t kPage = 4096;

/// The mapping around an address; its texts are lost.
std::optional<Mapping> around(const void* at, Detail detail = Detail::plain) {
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  std::optional<Mapping> found;
  EXPECT_EQ(for_each_mapping(detail,
                             [&](const Mapping& m) {
                               if (m.begin <= address && address < m.end) found = m;
                               return !found;
                             }),
            0);
  return found;
}

TEST(MemoryMap, ComesInOrderToTheEnd) {
  std::uintptr_t last = 0;
  int count = 0;
  ASSERT_EQ(for_each_mapping(Detail::plain,
                             [&](const Mapping& m) {
                               EXPECT_LT(m.begin, m.end);
                               EXPECT_LE(last, m.begin);
                               last = m.end;
                               return ++count > 0;
                             }),
            0);
  EXPECT_GT(count, 10);
  int visited = 0;
  for_each_mapping(Detail::plain, [&](const Mapping&) { return ++visited < 3; });
  EXPECT_EQ(visited, 3);
}

TEST(MemoryMap, KnowsAFile) {
  const Fd file(::memfd_create("a name", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 8 * kPage), 0);
  void* at = ::mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, file.get(), 3 * kPage);
  ASSERT_NE(at, MAP_FAILED);
  struct stat about{};
  ASSERT_EQ(::fstat(file.get(), &about), 0);
  const auto found = around(at);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->begin, reinterpret_cast<std::uintptr_t>(at));
  EXPECT_EQ(found->end - found->begin, 2 * kPage);
  EXPECT_EQ(found->offset, 3 * kPage);
  EXPECT_EQ(found->inode, about.st_ino);
  EXPECT_EQ(found->device, about.st_dev);
  EXPECT_TRUE(found->shared && found->readable);
  EXPECT_FALSE(found->writable || found->executable);
  std::string name;
  for_each_mapping(Detail::flags, [&](const Mapping& m) {
    if (m.begin == found->begin) name = m.name;
    return true;
  });
  EXPECT_EQ(name, "/memfd:a name (deleted)");
  ::munmap(at, 2 * kPage);
}

TEST(MemoryMap, KnowsFlags) {
  void* at = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  ASSERT_EQ(::madvise(at, kPage, MADV_DONTFORK), 0);
  bool seen = false;
  for_each_mapping(Detail::flags, [&](const Mapping& m) {
    if (m.begin > reinterpret_cast<std::uintptr_t>(at) || m.end <= reinterpret_cast<std::uintptr_t>(at)) return true;
    seen = true;
    EXPECT_TRUE(m.has_flag("dc")) << m.flags;
    EXPECT_TRUE(m.has_flag("rd")) << m.flags;
    EXPECT_FALSE(m.has_flag("wf")) << m.flags;
    EXPECT_EQ(m.inode, 0u);
    EXPECT_FALSE(m.shared);
    return false;
  });
  EXPECT_TRUE(seen);
  ::munmap(at, kPage);
  EXPECT_FALSE(around(at).has_value());
}

TEST(MapQuery, SaysWhatTheListSays) {
  const MapQuery query = MapQuery::open();
  if (!query) GTEST_SKIP() << "before Linux 6.11";
  const Fd file(::memfd_create("queried", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(file.get(), 8 * kPage), 0);
  auto* at = static_cast<char*>(::mmap(nullptr, 2 * kPage, PROT_READ, MAP_SHARED, file.get(), 3 * kPage));
  ASSERT_NE(at, MAP_FAILED);
  int local = 0;
  for (const void* address : {static_cast<const void*>(at), static_cast<const void*>(at + 2 * kPage - 1),
                              static_cast<const void*>(&local), reinterpret_cast<const void*>(&::getpid)}) {
    const auto told = query.from(reinterpret_cast<std::uintptr_t>(address)), listed = around(address);
    ASSERT_TRUE(told && listed);
    EXPECT_EQ(told->begin, listed->begin);
    EXPECT_EQ(told->end, listed->end);
    EXPECT_EQ(told->offset, listed->offset);
    EXPECT_EQ(told->inode, listed->inode);
    EXPECT_EQ(told->device, listed->device);
    EXPECT_EQ(told->readable, listed->readable);
    EXPECT_EQ(told->writable, listed->writable);
    EXPECT_EQ(told->executable, listed->executable);
    EXPECT_EQ(told->shared, listed->shared);
  }
  ::munmap(at, 2 * kPage);
  const auto next = query.from(reinterpret_cast<std::uintptr_t>(at));
  EXPECT_TRUE(!next || next->begin > reinterpret_cast<std::uintptr_t>(at));
}

}  // namespace
}  // namespace unisono
