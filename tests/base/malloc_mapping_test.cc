/// Which memory malloc has mapped for one request alone.

#include "base/malloc_mapping.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <vector>

namespace unisono {
namespace {

constexpr std::size_t kLarge = 40 << 20;  // more than malloc ever takes from its heap

struct Free {
  void operator()(void* p) const noexcept { std::free(p); }
};
using Memory = std::unique_ptr<void, Free>;

using Malloc = void* (*)(std::size_t);
using Release = void (*)(void*);
/// In code, not in data: only so the linker makes the entry that fixed_address_test is about.
[[gnu::noinline]] Malloc the_malloc() { return &std::malloc; }
[[gnu::noinline]] Release the_free() { return &std::free; }

class MallocMapping : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers have a malloc of their own";
#endif
    the_free()(the_malloc()(1));
  }
};

TEST_F(MallocMapping, IsKnown) {
  for (const std::size_t bytes : {kLarge, kLarge + 1, kLarge + 4095, 2 * kLarge + 100'000}) {
    const Memory large(std::calloc(1, bytes));
    const std::uint64_t usable = mapped_by_malloc(large.get());
    EXPECT_GE(usable, bytes);
    EXPECT_LT(usable, bytes + 8192);
  }
  const std::vector<double> v(kLarge / sizeof(double));
  EXPECT_GE(mapped_by_malloc(v.data()), kLarge);
}

TEST_F(MallocMapping, AtAnyAlignment) {
  for (const std::size_t alignment : {64u, 4096u, 65536u, 2u << 20}) {
    const Memory large(std::aligned_alloc(alignment, kLarge));
    const std::uint64_t usable = mapped_by_malloc(large.get());
    EXPECT_GE(usable, kLarge) << alignment;
    EXPECT_LT(usable, kLarge + alignment + 8192) << alignment;
  }
}

TEST_F(MallocMapping, AfterRealloc) {
  void* moved = std::realloc(std::calloc(1, kLarge), 3 * kLarge);
  EXPECT_GE(mapped_by_malloc(moved), 3 * kLarge);
  const Memory smaller(std::realloc(moved, 2 * kLarge));
  EXPECT_GE(mapped_by_malloc(smaller.get()), 2 * kLarge);
  EXPECT_LT(mapped_by_malloc(smaller.get()), 2 * kLarge + 8192);
}

TEST_F(MallocMapping, NothingElseIs) {
  const Memory small(std::calloc(1, 1000)), large(std::malloc(kLarge));
  std::array<std::byte, 100'000> local{};
  auto* const begin = static_cast<std::byte*>(large.get());
  EXPECT_EQ(mapped_by_malloc(small.get()), 0u) << "of the heap";
  EXPECT_EQ(mapped_by_malloc(local.data()), 0u) << "of the stack";
  EXPECT_EQ(mapped_by_malloc(nullptr), 0u);
  EXPECT_EQ(mapped_by_malloc(reinterpret_cast<const void*>(&mapped_by_malloc)), 0u);
  EXPECT_EQ(mapped_by_malloc(begin + 1), 0u);
  for (const std::size_t part : {16u, 4080u, 4096u, 8192u, 1u << 20})
    EXPECT_EQ(mapped_by_malloc(begin + part), 0u) << part;
}

TEST(MallocMappings, NothingIsReadThatIsNotThere) {
  void* const pages = ::mmap(nullptr, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto* const begin = static_cast<std::byte*>(pages);
  ASSERT_EQ(::munmap(begin, 4096), 0);
  EXPECT_EQ(mapped_by_malloc(begin + 4096), 0u) << "what would be before it is not mapped";
  EXPECT_EQ(mapped_by_malloc(begin), 0u);
  EXPECT_EQ(mapped_by_malloc(begin + 4096 + 16), 0u) << "nothing but zeros";
  ::munmap(begin + 4096, 2 * 4096);
}

}  // namespace
}  // namespace unisono
