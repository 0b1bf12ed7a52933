/// A caller's own memory as part of a segment: contents, ends, what cannot be, and memory that is not there any more.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "base/map_query.h"
#include "own_pages.h"
#include "site.h"
#include "transport/shm/layout.h"
#include "transport/shm/mapping.h"
#include "transport/shm/segment.h"

namespace unisono::transport::shm {
namespace {

using transport::test::in_child;
using transport::test::is_shared;
using transport::test::make_segment;
using transport::test::Pages;
using transport::test::pattern;

TEST(Registered, IsTheSameMemoryHereAndInTheSegment) {
  std::mt19937 random(11);
  for (int i = 0; i < 40; i++) {
    auto segment = make_segment();
    const std::uint64_t bytes = 2 * kPage + random() % (i % 4 == 0 ? 9 << 20 : 100'000),
                        skew = i == 0 ? 0 : random() % kPage;
    const Pages pages(bytes + 3 * kPage);
    std::byte* const data = pages.at() + skew;
    std::memset(pages.at(), 0x77, bytes + 3 * kPage);
    const auto before = pattern(bytes, 5);
    std::memcpy(data, before.data(), bytes);
    auto memory = segment->register_memory(data, bytes);
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    ASSERT_NE(*memory, nullptr);
    EXPECT_EQ(std::memcmp(data, before.data(), bytes), 0);

    const Place place = segment->find(data, bytes);
    ASSERT_NE(place.offset, 0u);
    EXPECT_EQ(place.registered, *memory);
    std::byte* const home = segment->base() + place.offset;
    EXPECT_EQ(std::memcmp(home, before.data(), bytes), 0);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(home) % kPage, reinterpret_cast<std::uintptr_t>(data) % kPage);

    const auto written = pattern(bytes, 6), answered = pattern(bytes, 7);
    std::memcpy(data, written.data(), bytes);
    (*memory)->to_segment(place.offset, bytes);
    EXPECT_EQ(std::memcmp(home, written.data(), bytes), 0) << bytes << " bytes at " << skew;
    std::memcpy(home, answered.data(), bytes);
    (*memory)->from_segment(place.offset, bytes);
    EXPECT_EQ(std::memcmp(data, answered.data(), bytes), 0) << bytes << " bytes at " << skew;

    (*memory)->release();
    EXPECT_EQ(segment->find(data, bytes).offset, 0u);
    EXPECT_FALSE(is_shared(data + kPage));
    EXPECT_EQ(std::memcmp(data, answered.data(), bytes), 0);
    std::memset(data, 1, bytes);
    EXPECT_EQ(std::memcmp(home, answered.data(), bytes), 0) << "private again";
    for (std::byte* at = pages.at(); at < data; at++)
      ASSERT_EQ(static_cast<int>(*at), 0x77) << "a neighbour was touched";
    for (std::byte* at = data + bytes; at < pages.at() + bytes + 3 * kPage; at++)
      ASSERT_EQ(static_cast<int>(*at), 0x77);
    (*memory)->release();  // twice does nothing
  }
}

/// Its ends cannot lie on huge pages where the caller has them; in the segment, where operations run, large memory's do.
TEST(Registered, LargeMemoryHasHugePagesOfItsOwn) {
  auto segment = make_segment();
  const Pages pages(44 << 20);
  std::memset(pages.at(), 0x77, 44 << 20);
  std::byte* const data = pages.at() + 37 * kPage + 16;
  const std::uint64_t before = segment->allocated();
  for (const std::uint64_t bytes : {std::uint64_t{9 << 20}, std::uint64_t{35 << 20} + 3 * kPage}) {
    auto memory = segment->register_memory(data, bytes);
    ASSERT_TRUE(memory.ok()) << memory.status().message();
    const std::uint64_t taken = segment->allocated() - before, offset = segment->find(data, bytes).offset;
    EXPECT_EQ(offset % kHugePage, reinterpret_cast<std::uintptr_t>(data) % kHugePage);
    if (bytes < 32 << 20) {
      EXPECT_EQ(taken, bytes + kPage) << "two huge pages more would be much for that";
    } else {
      EXPECT_EQ(taken % kHugePage, 0u);
      EXPECT_LE(taken, bytes + 2 * kHugePage);
      const std::byte* const end = segment->base() + offset + bytes;
      for (const std::byte* at = end; at < end + kHugePage - (offset + bytes) % kHugePage; at++)
        ASSERT_EQ(static_cast<int>(*at), 0) << "what lies behind it is nobody's";
      EXPECT_EQ(static_cast<int>(end[-1]), 0x77);
    }
    (*memory)->release();
    memory->reset();
    EXPECT_EQ(segment->allocated(), before);
  }
}

TEST(Registered, ShowsNothingOfItsNeighbours) {
  auto segment = make_segment();
  const Pages pages(4 * kPage);
  std::memset(pages.at(), 0x77, 4 * kPage);
  auto memory = segment->register_memory(pages.at() + 100, 3 * kPage);
  ASSERT_TRUE(memory.ok());
  const std::uint64_t offset = segment->find(pages.at() + 100, 1).offset;
  const std::byte* page = segment->base() + offset - 100;
  for (int i = 0; i < 100; i++) ASSERT_EQ(static_cast<int>(page[i]), 0);
  for (std::uint64_t i = 100 + 3 * kPage; i < 4 * kPage; i++) ASSERT_EQ(static_cast<int>(page[i]), 0);
  EXPECT_EQ(segment->find(pages.at() + 99, 2).offset, 0u);
  EXPECT_EQ(segment->find(pages.at() + 100, 3 * kPage + 1).offset, 0u);
  EXPECT_EQ(segment->find(pages.at() + 100 + 3 * kPage, 1).offset, 0u);
  EXPECT_EQ(segment->find(pages.at() + 5000, 10).offset, offset + 4900);
  (*memory)->release();
}

TEST(Registered, OnlyAPartOfTheEndsIsCopied) {
  auto segment = make_segment();
  const Pages pages(4 * kPage);
  std::byte* const data = pages.at() + 1000;
  auto memory = segment->register_memory(data, 2 * kPage);
  ASSERT_TRUE(memory.ok());
  const std::uint64_t offset = segment->find(data, 1).offset;
  std::memset(data, 0x11, 2 * kPage);
  (*memory)->to_segment(offset + 10,
                        20);  // an operation on a part must not meddle with what another one does beside it
  for (std::uint64_t i = 0; i < 3000; i++)
    ASSERT_EQ(static_cast<int>(segment->base()[offset + i]), i >= 10 && i < 30 ? 0x11 : 0) << i;
  (*memory)->release();
}

TEST(Registered, ContentsAreNotBroughtAlongWhenTheyAreDropped) {
  auto segment = make_segment();
  const Pages pages(5 << 20);
  std::memset(pages.at(), 0x77, 5 << 20);
  std::byte* const data = pages.at() + 100;
  auto memory = segment->register_memory(data, 4 << 20);
  ASSERT_TRUE(memory.ok());
  (*memory)->release(RegisteredMemory::Contents::dropped);
  EXPECT_FALSE(is_shared(data + kPage));
  EXPECT_EQ(segment->find(data, 1).offset, 0u);
  EXPECT_EQ(static_cast<int>(data[2 << 20]), 0) << "a page of its own that nobody has written to";
  for (const std::byte* at : {pages.at(), data, data + (4 << 20) - 1, pages.at() + (5 << 20) - 1})
    EXPECT_EQ(static_cast<int>(*at), 0x77) << "pages at the ends never were anything but the caller's";
  std::memset(data, 1, 4 << 20);
  EXPECT_TRUE(segment->register_memory(data, 4 << 20).ok()) << "ordinary memory again";
}

TEST(Registered, PagesThatAreLeftStayWhereTheyAre) {
  const Pages pages(5 << 20);
  const auto before = pattern(4 << 20, 5);
  std::byte* const data = pages.at() + 100;
  std::memcpy(data, before.data(), before.size());
  {
    auto segment = make_segment();
    const std::uint64_t allocated = segment->allocated();
    auto memory = segment->register_memory(data, 4 << 20);
    ASSERT_TRUE(memory.ok());
    (*memory)->release(RegisteredMemory::Contents::left);
    EXPECT_EQ(segment->find(data, 1).offset, 0u) << "operations copy it";
    memory = std::shared_ptr<RegisteredMemory>();
    EXPECT_GE(segment->allocated(), allocated + (4 << 20)) << "nobody else gets them";
  }
  EXPECT_TRUE(is_shared(data + kPage));
  EXPECT_EQ(std::memcmp(data, before.data(), before.size()), 0) << "without the segment, too";
  data[2 << 20] = std::byte{99};
  EXPECT_EQ(in_child([&] { return is_shared(data + kPage) || data[2 << 20] != std::byte{99} ? 1 : 0; }), 0)
      << "a child still gets a copy of its own";
}

TEST(Registered, SaysWhatIsLeftOfIt) {
  using Presence = RegisteredMemory::Presence;
  if (!MapQuery::open()) GTEST_SKIP() << "before Linux 6.11";
  auto segment = make_segment();
  Pages pages(16 * kPage);
  auto memory = segment->register_memory(pages.at(), 16 * kPage, Freed::at_any_time);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ((*memory)->presence(), Presence::all);
  ASSERT_EQ(::munmap(pages.at() + 12 * kPage, 4 * kPage), 0);
  EXPECT_EQ((*memory)->presence(), Presence::some);
  ASSERT_EQ(::munmap(pages.at(), 8 * kPage), 0);
  EXPECT_EQ((*memory)->presence(), Presence::some) << "in the middle";
  constexpr int kOther = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  ASSERT_EQ(::mmap(pages.at(), 16 * kPage, PROT_READ | PROT_WRITE, kOther, -1, 0), pages.at());
  EXPECT_EQ((*memory)->presence(), Presence::none) << "something else lies there";
  ASSERT_EQ(::munmap(pages.at(), 16 * kPage), 0);
  EXPECT_EQ((*memory)->presence(), Presence::none);
}

TEST(Registered, GivesItsPagesBack) {
  auto segment = make_segment();
  const Pages pages(9 << 20);
  const std::uint64_t before = segment->allocated();
  {
    auto memory = segment->register_memory(pages.at() + 16, 8 << 20);
    ASSERT_TRUE(memory.ok());
    EXPECT_GE(segment->allocated(), before + (8 << 20));
    (*memory)->release();
    EXPECT_GE(segment->allocated(), before + (8 << 20)) << "an operation may still hold it";
  }
  EXPECT_EQ(segment->allocated(), before);
}

TEST(Registered, SmallMemoryCoversNoPage) {
  auto segment = make_segment();
  const Pages pages(4 * kPage);
  const auto memory = segment->register_memory(pages.at() + 1, 2 * kPage - 2);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(*memory, nullptr);
  EXPECT_EQ(segment->find(pages.at() + 1, 1).offset, 0u);
}

TEST(Registered, SaysWhenTheSegmentIsFull) {
  auto segment = make_segment(1 << 20);
  const Pages pages(4 << 20);
  std::memset(pages.at(), 3, 4 << 20);
  const auto memory = segment->register_memory(pages.at(), 4 << 20);
  EXPECT_EQ(memory.status().code(), Code::system);
  EXPECT_EQ(static_cast<int>(pages.at()[12345]), 3);
  EXPECT_FALSE(is_shared(pages.at()));
}

// --- what cannot be registered ---------------------------------------------------------------------------------------

void expect_refused(const std::byte* at, const char* why, std::uint64_t bytes = 4 * kPage) {
  auto segment = make_segment();
  const auto memory = segment->register_memory(const_cast<std::byte*>(at), bytes);
  ASSERT_FALSE(memory.ok()) << why;
  EXPECT_EQ(memory.status().code(), Code::invalid_argument);
  EXPECT_THAT(memory.status().message(), testing::HasSubstr(why));
  EXPECT_EQ(segment->find(at, bytes).offset, 0u);
}

TEST(Registered, RefusesWhatIsNotOrdinaryMemory) {
  expect_refused(Pages(4 * kPage, PROT_READ).at(), "cannot be written to");
  expect_refused(Pages(4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS).at(), "shared memory already");
  const Pages not_forked(4 * kPage), wiped(4 * kPage), half(4 * kPage);
  ::madvise(not_forked.at(), 4 * kPage, MADV_DONTFORK);
  expect_refused(not_forked.at(), "MADV_DONTFORK");
  ::madvise(wiped.at(), 4 * kPage, MADV_WIPEONFORK);
  expect_refused(wiped.at(), "MADV_WIPEONFORK");
  ::munmap(half.at() + 2 * kPage, kPage);
  expect_refused(half.at(), "there is no memory");
}

TEST(Registered, RefusesFiles) {
  const Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  void* at = ::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
  ASSERT_NE(at, MAP_FAILED);
  expect_refused(static_cast<std::byte*>(at), "belongs to a file");
  ::munmap(at, 4 * kPage);
}

TEST(Registered, RefusesLockedMemory) {
  const Pages pages(4 * kPage);
  // The system call: sanitizers make a mlock() that does nothing.
  if (::syscall(SYS_mlock, pages.at(), 4 * kPage) != 0) GTEST_SKIP() << "mlock is not allowed here";
  expect_refused(pages.at(), "locked");
}

TEST(Registered, RefusesTheStack) {
  std::byte here[32 * kPage];
  here[0] = std::byte{1};
  expect_refused(here, "stack", sizeof here);
  std::thread([] {
    std::byte there[32 * kPage];
    there[0] = std::byte{1};
    expect_refused(there, "stack", sizeof there);
  }).join();
}

TEST(Registered, RefusesWhatIsRegistered) {
  auto one = make_segment(), two = make_segment();
  const Pages pages(16 * kPage);
  auto memory = one->register_memory(pages.at(), 8 * kPage);
  ASSERT_TRUE(memory.ok());
  for (const auto& segment : {one, two}) {
    EXPECT_EQ(segment->register_memory(pages.at(), 8 * kPage).status().code(), Code::invalid_argument);
    EXPECT_EQ(segment->register_memory(pages.at() + 4 * kPage, 8 * kPage).status().code(), Code::invalid_argument);
  }
  auto beside = one->register_memory(pages.at() + 8 * kPage, 4 * kPage);
  ASSERT_TRUE(beside.ok());
  EXPECT_NE(one->find(pages.at(), 8 * kPage).offset, 0u);
  // Neither's whole pages meet, but a page's ends overlap.
  auto third = one->register_memory(pages.at() + 12 * kPage, 2 * kPage + 100);
  ASSERT_TRUE(third.ok());
  EXPECT_THAT(one->register_memory(pages.at() + 14 * kPage + 50, 2 * kPage - 50).status().message(),
              testing::HasSubstr("registered already"));
  EXPECT_NE(one->find(pages.at() + 12 * kPage, 2 * kPage + 100).offset, 0u);
  for (const auto& m : {*memory, *beside, *third}) m->release();
}

// --- owners that forget ----------------------------------------------------------------------------------------------

TEST(Registered, ReleaseLeavesAloneWhatIsNotThereAnyMore) {
  auto segment = make_segment();
  Pages pages(16 * kPage);
  std::memset(pages.at(), 1, 16 * kPage);
  auto memory = segment->register_memory(pages.at(), 16 * kPage);
  ASSERT_TRUE(memory.ok());
  // Unmapped in the middle, and something else put there.
  std::byte* const middle = pages.at() + 4 * kPage;
  ASSERT_EQ(::munmap(middle, 4 * kPage), 0);
  ASSERT_EQ(::mmap(middle, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
            middle);
  middle[0] = std::byte{99};
  const Place there = segment->find(pages.at(), 16 * kPage);
  (*memory)->release();
  EXPECT_EQ(static_cast<int>(middle[0]), 99);
  if (MapQuery::open()) {
    EXPECT_EQ(there.offset, 0u);
  }
  EXPECT_TRUE(is_shared(middle)) << "somebody else's mapping is as it was";
  EXPECT_FALSE(is_shared(pages.at()));
  EXPECT_FALSE(is_shared(pages.at() + 15 * kPage));
  EXPECT_EQ(static_cast<int>(pages.at()[3 * kPage]), 1);
  EXPECT_EQ(static_cast<int>(pages.at()[15 * kPage]), 1);
  EXPECT_NE(::msync(middle + kPage, kPage, MS_ASYNC), 0) << "a hole stays one";
}

TEST(Registered, FreedMemoryIsNobodysBusiness) {
#ifdef UNISONO_SLOW_BUILD
  GTEST_SKIP() << "a sanitizer's free() unmaps nothing, and reports that what was freed is read";
#endif
  auto segment = make_segment();
  auto* heap = static_cast<std::byte*>(std::malloc(40 << 20));  // of its own pages, which free() unmaps
  std::memset(heap, 1, 40 << 20);
  auto memory = segment->register_memory(heap, 40 << 20);
  ASSERT_TRUE(memory.ok());
  // Only asked about, never touched; volatile, as GCC follows the pointer through an ordinary number and warns.
  const volatile auto freed = reinterpret_cast<std::uintptr_t>(heap);
  std::free(heap);
  if (MapQuery::open()) {
    EXPECT_EQ(segment->find(reinterpret_cast<const void*>(freed), 40 << 20).offset, 0u)
        << "an operation would work on other memory than its caller";
  }
  Pages next(40 << 20);
  std::memset(next.at(), 2, 40 << 20);
  (*memory)->release();
  for (std::uint64_t i = 0; i < 40 << 20; i += 1000) ASSERT_EQ(static_cast<int>(next.at()[i]), 2);
  EXPECT_EQ(in_child([] { return 0; }), 0);
}

TEST(Registered, AProtectedPageStaysSo) {
  auto segment = make_segment();
  const Pages pages(6 * kPage);
  std::memset(pages.at(), 4, 6 * kPage);
  auto memory = segment->register_memory(pages.at(), 6 * kPage);
  ASSERT_TRUE(memory.ok());
  ASSERT_EQ(::mprotect(pages.at() + kPage, kPage, PROT_READ), 0);
  ASSERT_EQ(::mprotect(pages.at() + 3 * kPage, kPage, PROT_NONE), 0);
  (*memory)->release();
  EXPECT_EQ(static_cast<int>(pages.at()[kPage]), 4);
  EXPECT_DEATH(pages.at()[kPage] = std::byte{1}, "");
  EXPECT_DEATH(if (pages.at()[3 * kPage] == std::byte{9}) std::abort(), "");
  ASSERT_EQ(::mprotect(pages.at() + 3 * kPage, kPage, PROT_READ), 0);
  EXPECT_EQ(static_cast<int>(pages.at()[3 * kPage]), 4);
}

}  // namespace
}  // namespace unisono::transport::shm
