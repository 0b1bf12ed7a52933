/// The thread by which others read and write this process's memory through the kernel.

#include "transport/shm/resting_thread.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "segments.h"
#include "transport/shm/segment.h"
#include "transport/shm/view.h"

namespace unisono::transport::shm {
namespace {

using test::make_doorbell;

std::filesystem::path folder_of(pid_t thread) { return "/proc/self/task/" + std::to_string(thread); }

std::string line_of(const std::filesystem::path& file) {
  std::string line;
  std::getline(std::ifstream(file) >> std::ws, line);
  return line;
}

template <class Condition>
bool comes_true(Condition&& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    ::sched_yield();
  }
  return true;
}

std::unique_ptr<RestingThread> started(std::atomic<pid_t>& number) {
  auto thread = RestingThread::start(number);
  EXPECT_TRUE(thread.ok()) << thread.status().message();
  EXPECT_TRUE(comes_true([&] { return number.load() != 0; }));
  return std::move(thread).value();
}

TEST(RestingThread, SleepsUnderItsNumberUntilItEnds) {
  std::atomic<pid_t> number{0};
  auto thread = started(number);
  const pid_t was = number;
  EXPECT_EQ(line_of(folder_of(was) / "comm"), "unisono-rests");
  // "pid (name) state": it is asleep
  EXPECT_TRUE(comes_true([&] { return line_of(folder_of(was) / "stat").find(") S ") != std::string::npos; }));
  EXPECT_NE(line_of(folder_of(was) / "stat").find("unisono-rests"), std::string::npos);
  thread.reset();
  EXPECT_EQ(number, 0);
  EXPECT_TRUE(comes_true([&] { return !std::filesystem::exists(folder_of(was)); }));
}

TEST(RestingThread, IsNobodysInAForkedChild) {
  std::atomic<pid_t> number{0};
  auto thread = started(number);
  const pid_t child = ::fork();
  if (child == 0) {
    thread.reset();  // there is nothing to wait for
    ::_exit(number != 0 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_NE(number, 0);
}

/// A view of this process's own segment, as another process would have it.
class ByThread : public testing::Test {
 protected:
  void SetUp() override {
    const Fd copy(::fcntl(segment_->fd(), F_DUPFD_CLOEXEC, 0));
    auto view = PeerView::map(copy, segment_->bytes(), make_doorbell(), ::getpid());
    ASSERT_TRUE(view.ok());
    view_ = *view;
    if (!view_->reads_memory()) GTEST_SKIP() << "the system does not allow process_vm_readv";
    for (std::size_t i = 0; i < here_.size(); i++) here_[i] = static_cast<std::byte>(i * 31 % 251);
  }
  /// What is here comes there, read and written.
  void expect_copies() {
    std::vector<std::byte> there(here_.size());
    EXPECT_EQ(view_->read_memory(there.data(), address_of(here_), here_.size()), 0);
    EXPECT_EQ(there, here_);
    expect_parts();
    if (!view_->writes_memory()) return;
    std::vector<std::byte> written(here_.size());
    const Area area{address_of(written), written.size()};
    EXPECT_EQ(view_->write_memory({&area, 1}, here_.data(), here_.size()), 0);
    EXPECT_EQ(written, here_);
  }
  /// More parts than go in one call, some of them empty, in any order in memory.
  void expect_parts() {
    std::vector<std::byte> there(here_.size());
    std::vector<MutablePart> parts;
    for (std::size_t size = 0, left = there.size(); left > 0; size = std::min(size * 3 + 1, left) % 9001)
      parts.push_back(std::span(there).subspan(left -= size, size));
    ASSERT_GT(parts.size(), 20u);
    EXPECT_EQ(view_->read_memory(parts, address_of(here_)), 0);
    const std::byte* next = here_.data();
    for (const MutablePart& part : parts) {
      EXPECT_TRUE(std::ranges::equal(part, std::span(next, part.size())));
      next += part.size();
    }
    EXPECT_EQ(view_->read_memory({}, address_of(here_)), 0);
  }
  static std::uint64_t address_of(const std::vector<std::byte>& memory) {
    return reinterpret_cast<std::uintptr_t>(memory.data());
  }
  std::atomic<pid_t>& resting() { return segment_->header().resting; }

  std::shared_ptr<Segment> segment_ = test::make_segment(1 << 20);
  std::shared_ptr<PeerView> view_;
  std::vector<std::byte> here_ = std::vector<std::byte>(100'000);
};

TEST_F(ByThread, BeforeItRestsWhileItDoesAndBehindThat) {
  expect_copies();
  auto thread = started(resting());
  expect_copies();
  thread.reset();
  expect_copies();
}

/// As when it ends in the very moment before the call: the number is there still.
TEST_F(ByThread, OneThatHasEndedIsAskedForNoMore) {
  std::atomic<pid_t> number{0};
  auto thread = started(number);
  resting() = number.load();
  expect_copies();
  const pid_t was = number;
  thread.reset();
  ASSERT_TRUE(comes_true([&] { return !std::filesystem::exists(folder_of(was)); }));
  expect_copies();
}

/// So it is across PID namespaces.
TEST_F(ByThread, TheNumberOfSomebodyElseIsNotUsed) {
  resting() = 1;  // another process, which says something else there, or nothing
  expect_copies();
  resting() = -1;
  expect_copies();
}

}  // namespace
}  // namespace unisono::transport::shm
