#include "base/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <optional>

namespace unisono {
namespace {

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    ours = Fd::of_process_alone(ends[0]);
    peers = Fd(ends[1]);
  }
  Fd ours, peers;
};

bool open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

/// Runs `body` in a child; the status that it returns.
template <class Body>
int in_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(FdOfProcessAlone, PeersSeeItsEndWhileAChildLives) {
  Pair pair;
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const Fd reads(pipe[0]);
  Fd writes(pipe[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    writes.reset();
    char letter = 0;
    ::_exit(::read(reads.get(), &letter, 1) == 0 ? 0 : 1);  // until the parent says so
  }
  pair.ours.reset();
  char letter = 0;
  EXPECT_EQ(::read(pair.peers.get(), &letter, 1), 0);
  writes.reset();
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(FdOfProcessAlone, MovesAndIsReleased) {
  Pair pair;
  Fd moved = std::move(pair.ours);
  Fd assigned;
  assigned = std::move(moved);
  const int fd = assigned.get();
  EXPECT_EQ(in_child([&] { return open(fd) ? 1 : 0; }), 0);
  EXPECT_TRUE(open(fd));
  const Fd ordinary(assigned.release());
  EXPECT_EQ(in_child([&] { return open(fd) ? 0 : 1; }), 0) << "who took it decides";
}

/// The number may be another file's by then.
TEST(FdOfProcessAlone, ItsCopyInAChildClosesNothing) {
  Pair pair;
  std::optional<Fd> ours(std::move(pair.ours));
  EXPECT_EQ(in_child([&] {
              const int fd = ours->get(), other = ::open("/dev/null", O_RDONLY);
              if (other != fd && ::dup2(other, fd) != fd) return 1;
              ours.reset();
              return open(fd) ? 0 : 2;
            }),
            0);
  EXPECT_TRUE(open(ours->get()));
}

TEST(FdOfProcessAlone, IsForgottenWhenItIsClosed) {
  Pair pair;
  const int fd = pair.ours.get();
  pair.ours.reset();
  const Fd next(::dup2(pair.peers.get(), fd));
  EXPECT_EQ(in_child([&] { return open(fd) ? 0 : 1; }), 0);
}

TEST(FdOfProcessAlone, NoDescriptorIsNone) {
  const Fd none = Fd::of_process_alone(-1);
  EXPECT_FALSE(none);
}

}  // namespace
}  // namespace unisono
