/// fork() while memory is registered: a child has a copy of its own, and its parent keeps what it has.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <new>
#include <thread>

#include "own_pages.h"
#include "site.h"
#include "transport/shm/layout.h"
#include "transport/shm/segment.h"

namespace unisono::transport::shm {
namespace {

using transport::test::in_child;
using transport::test::is_shared;
using transport::test::make_segment;
using transport::test::Pages;

class Forks : public testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 5 << 20;
  Forks() {
    std::memset(pages.at(), 1, kBytes + kPage);
    memory = segment->register_memory(pages.at() + 16, kBytes).value();
    (void)segment->find(pages.at() + 16, kBytes);  // no copies of the last test
  }
  ~Forks() override { memory->release(); }
  bool all(int value) const {
    for (std::uint64_t i = 0; i < kBytes; i++)
      if (static_cast<int>(pages.at()[16 + i]) != value) return false;
    return true;
  }
  void set(int value) const { std::memset(pages.at() + 16, value, kBytes); }

  std::shared_ptr<Segment> segment = make_segment();
  Pages pages{kBytes + kPage};
  std::shared_ptr<RegisteredMemory> memory;
};

TEST_F(Forks, TheChildHasItsOwnCopy) {
  const auto child = in_child([&] {
    if (is_shared(pages.at() + kPage) || !all(1)) return 1;
    set(2);
    return all(2) ? 0 : 2;
  });
  EXPECT_EQ(child, 0);
  EXPECT_TRUE(all(1)) << "the child's writes are its own";
  EXPECT_TRUE(is_shared(pages.at() + kPage)) << "the parent's stays registered";
}

TEST_F(Forks, WhatTheParentWritesLaterTheChildDoesNotSee) {
  int go[2];
  ASSERT_EQ(::pipe2(go, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char word = 0;
    if (::read(go[0], &word, 1) != 1) ::_exit(3);
    ::_exit(all(1) ? 0 : 1);
  }
  set(2);
  ASSERT_EQ(::write(go[1], "x", 1), 1);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  for (const int fd : go) ::close(fd);
}

TEST_F(Forks, TheChildLeavesTheParentsMemoryAlone) {
  EXPECT_EQ(in_child([&] {
              memory->release();
              memory.reset();
              segment.reset();
              return all(1) ? 0 : 1;
            }),
            0);
  const std::uint64_t offset = segment->find(pages.at() + 16, kBytes).offset;
  EXPECT_EQ(static_cast<int>(segment->base()[offset + 2 * kPage]), 1);
  EXPECT_TRUE(all(1));
}

TEST_F(Forks, OfAChildAndWithNothingRegistered) {
  EXPECT_EQ(in_child([&] { return in_child([&] { return all(1) && !is_shared(pages.at() + kPage) ? 0 : 1; }); }), 0);
  memory->release();
  EXPECT_EQ(in_child([&] { return all(1) ? 0 : 1; }), 0);
}

TEST_F(Forks, AChildRegistersItsCopy) {
  EXPECT_EQ(in_child([&] {
              auto own = make_segment();
              auto again = own->register_memory(pages.at() + 16, kBytes);
              if (!again.ok()) return 1;
              const int grandchild = in_child([&] {
                set(7);
                return 0;
              });
              const bool kept = all(1);
              (*again)->release();
              return kept && all(1) && grandchild == 0 ? 0 : 2;
            }),
            0);
}

TEST_F(Forks, UnmappedMemoryIsNotCopiedOver) {
  std::byte* const at = pages.at() + 4 * kPage;
  ASSERT_EQ(::mmap(at, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at);
  EXPECT_EQ(in_child([&] {
              at[0] = std::byte{55};
              return 0;
            }),
            0);
  EXPECT_EQ(static_cast<int>(at[0]), 55) << "a mapping of somebody else is shared as it was";
}

TEST_F(Forks, AForkThatFailsChangesNothing) {
  const int outcome = in_child([&] {
    auto own = make_segment();
    auto again = own->register_memory(pages.at() + 16, kBytes);
    if (!again.ok()) return 1;
    constexpr uid_t kNobody = 65534;  // root may fork as often as it likes
    if (::getuid() == 0 && ::setresuid(kNobody, kNobody, kNobody) != 0) return 2;
    rlimit none{};
    if (::setrlimit(RLIMIT_NPROC, &none) != 0) return 3;
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    if (child > 0 || errno != EAGAIN) return 4;
    if (!is_shared(pages.at() + kPage) || !all(1)) return 5;
    (*again)->release();  // the list is not locked
    return is_shared(pages.at() + kPage) ? 6 : 0;
  });
  EXPECT_EQ(outcome, 0);
}

TEST_F(Forks, WithoutDescriptorsTheChildEndsRatherThanShare) {
  rlimit old{};
  ::getrlimit(RLIMIT_NOFILE, &old);
  rlimit tight = old;
  tight.rlim_cur = 3;
  ::setrlimit(RLIMIT_NOFILE, &tight);
  const int status = in_child([] { return 0; });
  ::setrlimit(RLIMIT_NOFILE, &old);
  EXPECT_EQ(status, 1);
  EXPECT_TRUE(all(1));
  EXPECT_EQ(in_child([&] { return all(1) ? 0 : 1; }), 0);
}

TEST_F(Forks, LeakNoDescriptors) {
  const int before = transport::test::open_descriptors();
  for (int i = 0; i < 10; i++)
    EXPECT_EQ(in_child([&] { return transport::test::open_descriptors() == before ? 0 : 1; }), 0);
  // The parent keeps what the children got, for the next ones, until an operation begins.
  EXPECT_LE(transport::test::open_descriptors(), before + 1);
  (void)segment->find(pages.at() + 16, kBytes);
  EXPECT_EQ(transport::test::open_descriptors(), before);
}

/// The file that lies there, in a child; 0: none.
std::uint64_t file_at(const std::byte* at) {
  std::uint64_t inode = 0;
  for_each_mapping(Detail::plain, [&](const Mapping& m) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    if (m.begin <= address && address < m.end) inode = m.inode;
    return m.end <= address;
  });
  return inode;
}

/// In memory that a child writes to for its parent.
std::uint64_t file_in_child(const std::byte* at, const std::function<bool()>& as_expected) {
  const Pages answer(kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS);
  auto* inode = new (answer.at()) std::uint64_t(0);
  EXPECT_EQ(in_child([&] {
              *inode = file_at(at);
              return as_expected() ? 0 : 1;
            }),
            0);
  return *inode;
}

TEST_F(Forks, ChildrenThatAreMadeInARowShareOneCopy) {
  const std::byte* at = pages.at() + kPage;
  const std::uint64_t first = file_in_child(at, [&] { return all(1); });
  EXPECT_NE(first, 0);
  const auto second = file_in_child(at, [&] {
    set(2);  // on pages of its own
    return all(2);
  });
  EXPECT_EQ(second, first);
  EXPECT_EQ(file_in_child(at, [&] { return all(1); }), first);
  set(3);
  const std::uint64_t later = file_in_child(at, [&] { return all(3); });
  EXPECT_NE(later, first) << "an older child may still look at the first one";
  pages.at()[16 + kBytes - 1] = std::byte{3};
  pages.at()[kBytes / 2] = std::byte{4};
  EXPECT_NE(file_in_child(at, [&] { return static_cast<int>(pages.at()[kBytes / 2]) == 4; }), later);
}

TEST_F(Forks, BuffersAreCopiedAsWell) {
  constexpr std::uint64_t kSmall = 3 * kPage;
  const std::uint64_t offset = segment->allocate_buffer(kSmall).value();
  std::byte* const buffer = segment->base() + offset;
  const std::uint64_t kept = segment->allocate_buffer(kSmall).value();
  ASSERT_TRUE(segment->hand_out(offset, kSmall).ok());
  std::memset(buffer, 6, kSmall);
  EXPECT_EQ(in_child([&] {
              if (is_shared(buffer) || !is_shared(segment->base() + kept)) return 1;
              std::memset(buffer, 7, kSmall);
              return static_cast<int>(buffer[kSmall - 1]) == 7 ? 0 : 2;
            }),
            0);
  EXPECT_EQ(static_cast<int>(buffer[0]), 6);
  EXPECT_TRUE(segment->take_back(offset, kSmall));
  EXPECT_EQ(in_child([&] { return is_shared(buffer) ? 0 : 1; }), 0) << "the program has it no more";
}

TEST_F(Forks, WithoutMemoryForACopyTheChildLivesAndTouchesNothing) {
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  rlimit tight = old;
  tight.rlim_cur = kBytes / 2;  // of a file, which the copy is
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  ::setrlimit(RLIMIT_FSIZE, &tight);
  const int lives = in_child([] { return 7; });
  const int touches = in_child([&] {
    transport::test::die_by_signal();
    return static_cast<int>(pages.at()[kPage]);
  });
  ::setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(lives, 7);
  EXPECT_EQ(touches, 255) << "ended by a signal, not by wrong contents";
  EXPECT_TRUE(all(1));
}

/// Forks come between registrations, never into the middle of one: no child ever sees a half.
TEST_F(Forks, FromOneThreadWhileAnotherRegisters) {
  constexpr std::uint64_t kSmall = 64 * kPage;
  const Pages other(kSmall);
  std::memset(other.at(), 6, kSmall);
  std::atomic<bool> over{false};
  std::atomic<int> rounds{0};
  std::thread registers([&] {
    while (!over || rounds < 20) {
      auto second = segment->register_memory(other.at(), kSmall);
      ASSERT_TRUE(second.ok()) << second.status().message();
      (*second)->release();
      rounds++;
    }
  });
  for (int i = 0; i < 30; i++) {
    EXPECT_EQ(in_child([&] {
                std::memset(other.at(), 8, kSmall);  // on pages of the child's own, or the parent sees it
                return all(1) ? 0 : 1;
              }),
              0);
  }
  over = true;
  registers.join();
  // Here and not above, where it would be right, too: ThreadSanitizer takes the exchange of pages for a write. What a child had
  // written to shared ones would have been copied along ever since.
  for (std::uint64_t at = 0; at < kSmall; at += 512) ASSERT_EQ(static_cast<int>(other.at()[at]), 6);
}

}  // namespace
}  // namespace unisono::transport::shm
