#pragma once
/// Memory of one's own, a segment that it becomes part of, and a child to look at it.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>

#include "base/memory_map.h"
#include "transport/shm/segment.h"

namespace unisono::transport::test {

using shm::Segment;

inline std::shared_ptr<Segment> make_segment(std::uint64_t bytes = 64 << 20) {
  auto segment = Segment::create(bytes, Logger(LogLevel::off, ""));
  EXPECT_TRUE(segment.ok()) << segment.status().message();
  return std::move(segment).value();
}

/// Pages of our own, unmapped at the end.
class Pages {
 public:
  explicit Pages(std::uint64_t bytes, int access = PROT_READ | PROT_WRITE, int kind = MAP_PRIVATE | MAP_ANONYMOUS)
      : bytes_(bytes), at_(static_cast<std::byte*>(::mmap(nullptr, bytes, access, kind, -1, 0))) {
    EXPECT_NE(at_, MAP_FAILED);
  }
  ~Pages() { ::munmap(at_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* at() const { return at_; }

 private:
  std::uint64_t bytes_;
  std::byte* at_;
};

inline bool is_shared(const void* at) {
  bool shared = false;
  for_each_mapping(Detail::plain, [&](const Mapping& m) {
    const auto address = reinterpret_cast<std::uintptr_t>(at);
    if (m.begin <= address && address < m.end) shared = m.shared;
    return m.end <= address;
  });
  return shared;
}

/// In a child that is to be ended by touching what it may not: by the signal, not by a sanitizer's
/// handler for it.
inline void die_by_signal() {
  for (const int signal : {SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL);
}

/// Exit status of a forked child that runs `body`; 255 when a signal ended it.
inline int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

}  // namespace unisono::transport::test
