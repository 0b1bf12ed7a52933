/// The parts under shared memory: extents, segments, views, offers.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "segments.h"
#include "site.h"
#include "transport/shm/extents.h"
#include "transport/shm/offer.h"
#include "transport/shm/segment.h"
#include "transport/shm/view.h"

namespace unisono::transport::shm {
namespace {

using test::make_doorbell;
using test::make_segment;

std::uint64_t committed(const Segment& segment) {
  struct stat about{};
  ::fstat(segment.fd(), &about);
  return static_cast<std::uint64_t>(about.st_blocks) * 512;
}

TEST(Extents, GiveBackWhatWasTakenAndMerge) {
  Extents extents;
  extents.give(0, 1 << 20);
  std::mt19937 random(5);
  std::map<std::uint64_t, std::uint64_t> live;
  for (int i = 0; i < 20000; ++i) {
    if (live.empty() || random() % 3 != 0) {
      const std::uint64_t bytes = (random() % 8000 + 64) / 64 * 64, alignment = random() % 2 ? 64 : 4096;
      const auto at = extents.take(bytes, alignment);
      if (!at) continue;
      EXPECT_EQ(*at % alignment, 0u);
      const auto next = live.lower_bound(*at);
      if (next != live.end()) {
        EXPECT_LE(*at + bytes, next->first);
      }
      if (next != live.begin()) {
        EXPECT_LE(std::prev(next)->first + std::prev(next)->second, *at);
      }
      live[*at] = bytes;
    } else {
      const auto it = std::next(live.begin(), static_cast<long>(random() % live.size()));
      extents.give(it->first, it->second);
      live.erase(it);
    }
  }
  for (const auto& [at, bytes] : live) extents.give(at, bytes);
  EXPECT_EQ(extents.take(1 << 20, 64), 0u) << "all of it is one piece again";
}

/// Pages of [at, at + bytes) that are mapped in this process.
std::size_t mapped(const std::byte* at, std::uint64_t bytes) {
  std::vector<std::uint64_t> pages(bytes / kPage);
  const Fd map(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  const auto from = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(at) / kPage * sizeof pages[0]);
  EXPECT_EQ(::pread(map.get(), pages.data(), pages.size() * sizeof pages[0], from),
            static_cast<ssize_t>(pages.size() * sizeof pages[0]));
  return static_cast<std::size_t>(std::ranges::count_if(pages, [](std::uint64_t page) { return page >> 63 != 0; }));
}

/// Remembers what it was asked for, and how many pages were there already.
class RecordingBinder final : public MemoryBinder {
 public:
  Status prefer(std::byte* area, std::uint64_t bytes, int node) override {
    std::vector<unsigned char> there(bytes / 4096);
    EXPECT_EQ(::mincore(area, bytes, there.data()), 0);
    pages = std::count_if(there.begin(), there.end(), [](unsigned char page) { return (page & 1) != 0; });
    asked.emplace_back(area, bytes, node);
    return refuses ? Status::system("no", EPERM) : Status{};
  }
  std::vector<std::tuple<std::byte*, std::uint64_t, int>> asked;
  std::int64_t pages = -1;  ///< that were there before
  bool refuses = false;
};

TEST(Segment, AllOfItIsAskedForOnItsNodeBeforeItsFirstPage) {
  const auto binder = std::make_shared<RecordingBinder>();
  for (const bool refuses : {false, true}) {
    binder->refuses = refuses;
    binder->asked.clear();
    const auto segment = Segment::create(8 << 20, Logger(LogLevel::off, ""), MemoryHome{3, binder});
    ASSERT_TRUE(segment.ok()) << segment.status().message();
    ASSERT_EQ(binder->asked.size(), 1u);
    EXPECT_EQ(binder->asked[0], std::tuple((*segment)->base(), (*segment)->bytes(), 3));
    EXPECT_EQ(binder->pages, 0);
    EXPECT_TRUE((*segment)->allocate(1 << 20).ok()) << "bound or not";
  }
}

TEST(Segment, PagesAreOnTheNodeAndStayThere) {
  auto made = Segment::create(32 << 20, Logger(LogLevel::off, ""), MemoryHome{0, make_memory_binder()});
  ASSERT_TRUE(made.ok()) << made.status().message();
  const std::shared_ptr<Segment> segment = std::move(made).value();
  if (!make_memory_binder()->prefer(segment->base(), segment->bytes(), 0))
    GTEST_SKIP() << "SKIPPED: memory cannot be bound here";
  for (const bool buffer : {false, true}) {
    const std::uint64_t bytes = 4 << 20;
    const auto offset = buffer ? segment->allocate_buffer(bytes) : segment->allocate(bytes);
    ASSERT_TRUE(offset.ok()) << offset.status().message();
    std::memset(segment->base() + *offset, 1, bytes);
    std::vector<void*> pages;
    for (std::uint64_t at = 0; at < bytes; at += 4096) pages.push_back(segment->base() + *offset + at);
    std::vector<int> nodes(pages.size(), -1);
    if (::syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0)
      GTEST_SKIP() << "SKIPPED: the system does not say where pages are";
    EXPECT_EQ(std::count(nodes.begin(), nodes.end(), 0), static_cast<std::ptrdiff_t>(nodes.size()));
  }
}

TEST(Segment, HandsOutZeroedAlignedMemory) {
  auto segment = make_segment(8 << 20);
  std::mt19937 random(1);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> live;
  for (int i = 0; i < 2000; ++i) {
    if (live.size() > 50 || (!live.empty() && random() % 2)) {
      const auto [offset, bytes] = live.back();
      live.pop_back();
      segment->release(offset, bytes);
      continue;
    }
    const std::uint64_t bytes = random() % 3 ? random() % 5000 : random() % 100000;
    auto offset = segment->allocate(bytes);
    ASSERT_TRUE(offset.ok());
    EXPECT_EQ(*offset % (bytes >= 4096 ? 4096 : 64), 0u);
    EXPECT_NE(*offset, 0u);
    std::byte* at = segment->base() + *offset;
    EXPECT_TRUE(std::all_of(at, at + bytes, [](std::byte b) { return b == std::byte{0}; })) << bytes;
    std::memset(at, 0xff, bytes);
    live.emplace_back(*offset, bytes);
  }
  for (const auto& [offset, bytes] : live) segment->release(offset, bytes);
  EXPECT_EQ(segment->allocated(), 0u);
}

TEST(Segment, CommitsOnAllocateAndReturnsPagesOnRelease) {
  auto segment = make_segment(256 << 20);
  EXPECT_LT(committed(*segment), 64u << 10) << "virtual size costs nothing";
  auto offset = segment->allocate(10 << 20);
  ASSERT_TRUE(offset.ok());
  EXPECT_GE(committed(*segment), 10u << 20) << "committed before the first touch";
  segment->release(*offset, 10 << 20);
  EXPECT_LT(committed(*segment), 64u << 10);
}

TEST(Segment, SaysWhenItIsFull) {
  auto segment = make_segment(1 << 20);
  const auto whole = segment->allocate(2 << 20);
  EXPECT_EQ(whole.status().code(), Code::system);
  std::vector<std::uint64_t> offsets;
  while (true) {
    auto offset = segment->allocate(100000);
    if (!offset) {
      EXPECT_THAT(offset.status().message(), testing::HasSubstr("full"));
      break;
    }
    offsets.push_back(*offset);
  }
  EXPECT_GE(offsets.size(), 9u);
  for (const auto offset : offsets) segment->release(offset, 100000);
  EXPECT_TRUE(segment->allocate(900000).ok()) << "what was given back is whole again";
  EXPECT_FALSE(segment->allocate(~0ull).ok());
}

TEST(Segment, IgnoresAReleaseOfWhatWasNotAllocated) {
  auto segment = make_segment(1 << 20);
  auto offset = segment->allocate(5000);
  ASSERT_TRUE(offset.ok());
  segment->release(*offset + 64, 5000);
  segment->release(*offset, 100);
  EXPECT_EQ(segment->allocated(), 8192u);
  segment->release(*offset, 5000);
  segment->release(*offset, 5000);
  EXPECT_EQ(segment->allocated(), 0u);
}

TEST(Segment, CannotBeResized) {
  auto segment = make_segment(1 << 20);
  EXPECT_NE(::ftruncate(segment->fd(), 4096), 0);
  EXPECT_NE(::ftruncate(segment->fd(), 4 << 20), 0);
  EXPECT_NE(::fcntl(segment->fd(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(PeerView, RefusesWhatIsNotASealedSegment) {
  const Fd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 1 << 20), 0);
  EXPECT_THAT(PeerView::map(unsealed, 1 << 20, make_doorbell()).status().message(), testing::HasSubstr("not sealed"));
  ASSERT_EQ(::fcntl(unsealed.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_THAT(PeerView::map(unsealed, 2 << 20, make_doorbell()).status().message(), testing::HasSubstr("bytes"));
  EXPECT_THAT(PeerView::map(unsealed, 1 << 20, make_doorbell()).status().message(), testing::HasSubstr("version"));
  const Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(PeerView::map(file, 1 << 20, make_doorbell()).ok());
}

TEST(PeerView, MapsReadOnly) {
  auto segment = make_segment(1 << 20);
  const Fd copy(::fcntl(segment->fd(), F_DUPFD_CLOEXEC, 0));
  auto view = PeerView::map(copy, segment->bytes(), make_doorbell());
  ASSERT_TRUE(view.ok());
  auto offset = segment->allocate(64);
  segment->base()[*offset] = std::byte{7};
  const std::byte* at = (*view)->at(*offset, 64);
  ASSERT_TRUE(at);
  EXPECT_EQ(at[0], std::byte{7});
  EXPECT_DEATH(const_cast<std::byte*>(at)[0] = std::byte{8}, "");
}

/// A store to a page that is not mapped yet takes longer than a small collective.
TEST(PeerView, PagesAreMappedAtOnce) {
  auto segment = make_segment(8 << 20);
  constexpr std::uint64_t kBytes = 1 << 20;
  const std::byte* own = segment->base() + segment->allocate(kBytes).value();
  if (mapped(own, kBytes) == 0) GTEST_SKIP() << "the system has no MADV_POPULATE_WRITE (Linux 5.14)";
  EXPECT_EQ(mapped(own, kBytes), kBytes / kPage);
  const std::byte* buffer = segment->base() + segment->allocate_buffer(kBytes).value();
  EXPECT_EQ(mapped(buffer, kBytes), kBytes / kPage);

  const Fd copy(::fcntl(segment->fd(), F_DUPFD_CLOEXEC, 0));
  auto view = PeerView::map(copy, segment->bytes(), make_doorbell()).value();
  const auto offset = static_cast<std::uint64_t>(buffer - segment->base());
  const std::byte* there = view->at(offset, kBytes);
  EXPECT_EQ(mapped(there, kBytes), 0u);
  view->map_now(offset, kBytes, false);
  EXPECT_EQ(mapped(there, kBytes), kBytes / kPage);
  const std::byte* written = view->writable(offset, kBytes);
  EXPECT_EQ(mapped(written, kBytes), 0u);
  view->map_now(offset, kBytes, true);
  EXPECT_EQ(mapped(written, kBytes), kBytes / kPage);
  view->map_now(segment->bytes() - kPage, 2 * kPage, false);  // not inside: nothing happens
  view->map_now(segment->bytes() - kPage, 2 * kPage, true);
}

TEST(PeerView, SaysWhereItsOwnerWaits) {
  auto segment = make_segment(1 << 20);
  const Fd copy(::fcntl(segment->fd(), F_DUPFD_CLOEXEC, 0));
  auto view = PeerView::map(copy, segment->bytes(), make_doorbell());
  ASSERT_TRUE(view.ok());
  EXPECT_EQ((*view)->waits_on(), -1) << "nowhere yet";
  for (const int processor : {0, 191, 3}) {
    segment->waits_on(processor);
    EXPECT_EQ((*view)->waits_on(), processor);
  }
}

TEST(OfferExchange, RefusesADoorbellThatBlocks) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
  const Fd left(pair[0]), right(pair[1]);
  auto segment = make_segment(1 << 20);
  const Fd blocking(::eventfd(0, EFD_CLOEXEC));
  const Offer offer{kMagic, kVersion, 1, segment->bytes(), 4096};
  OfferExchange bad(offer, segment->fd(), blocking.get());
  const auto bell = make_doorbell();
  OfferExchange good(offer, segment->fd(), bell->get());
  bad.pump(left.get());
  EXPECT_EQ(good.pump(right.get()), OfferExchange::State::failed);
  EXPECT_THAT(good.reason(), testing::HasSubstr("doorbell"));
}

TEST(OfferExchange, SaysWhenDescriptorsDidNotArrive) {
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
  const Fd left(pair[0]), right(pair[1]);
  auto segment = make_segment(1 << 20);
  const auto bell = make_doorbell();
  const Offer offer{kMagic, kVersion, 1, segment->bytes(), 4096};
  OfferExchange one(offer, segment->fd(), bell->get()), two(offer, segment->fd(), bell->get());
  one.pump(left.get());
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  rlimit tight = old;
  tight.rlim_cur = 3;
  ::setrlimit(RLIMIT_NOFILE, &tight);
  const auto state = two.pump(right.get());
  ::setrlimit(RLIMIT_NOFILE, &old);
  EXPECT_EQ(state, OfferExchange::State::failed);
  EXPECT_THAT(two.reason(), testing::HasSubstr("ulimit"));
}

TEST(OfferExchange, KeepsNoDescriptorsOfAStranger) {
  const int before = transport::test::open_descriptors();
  {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    const Fd left(pair[0]), right(pair[1]);
    auto segment = make_segment(1 << 20);
    const auto bell = make_doorbell();
    const Offer wrong{kMagic + 1, kVersion, 1, segment->bytes(), 4096};
    OfferExchange one(wrong, segment->fd(), bell->get());
    OfferExchange two({kMagic, kVersion, 1, segment->bytes(), 4096}, segment->fd(), bell->get());
    one.pump(left.get());
    EXPECT_EQ(two.pump(right.get()), OfferExchange::State::failed);
  }
  EXPECT_EQ(transport::test::open_descriptors(), before);
}

}  // namespace
}  // namespace unisono::transport::shm
