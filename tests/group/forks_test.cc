/// A group in a forked child of its process: calls throw, ends do nothing, and the parent's group
/// goes on.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "unisono/unisono.hpp"

namespace unisono {
namespace {

pid_t fork_by_system_call() { return static_cast<pid_t>(::syscall(SYS_fork)); }  // no pthread_atfork() handler runs

/// What a child of this process ends with that runs `body`; -1: a signal ended it.
int in_child(const std::function<int()>& body, pid_t (*make)() = &::fork) {
  const pid_t child = make();
  if (child == 0) ::_exit(body());
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Whether `call` is refused with words that say why.
bool refused(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& e) {
    return std::string(e.what()).find("forked child") != std::string::npos;
  }
  return false;
}

void all_ranks_agree(const Group& world) {
  std::vector<double> small(10, 1.0), large(100'000, 1.0);
  for (std::vector<double>* x : {&small, &large}) {
    world.all_reduce(std::span(*x));
    EXPECT_EQ(x->front(), world.size());
    EXPECT_EQ(x->back(), world.size());
  }
}

TEST(Forks, EveryCallIsRefused) {
  spawn_threads(2, [](Group world) {
    all_ranks_agree(world);
    if (world.rank() == 0) {
      const int wrong = in_child([&] {
        std::vector<double> x(10, 1.0), y(20);
        const std::span<double> data(x);
        const std::vector<std::function<void()>> calls{
            [&] { world.all_reduce(data); },
            [&] { (void)world.all_reduce_async(data); },
            [&] { world.all_gather(std::span<const double>(x), std::span(y)); },
            [&] { world.barrier(); },
            [&] { world.send(data, 1); },
            [&] { world.recv(data, 1); },
            [&] { (void)world.isend(std::as_bytes(data), 1); },
            [&] { (void)world.irecv(std::as_writable_bytes(data), 1); },
            [&] { (void)world.allocate(100); },
            [&] { (void)world.register_buffer(data); },
            [&] { (void)world.split(0); },
            [&] { (void)world.subgroup(std::vector<int>{0, 1}); },
            [&] { world.abort("the child"); }};
        int count = 0;
        for (std::size_t i = 0; i < calls.size(); i++)
          if (!refused(calls[i])) count = static_cast<int>(i) + 1;
        world.destroy();
        const bool looks = !world.made_here() && world.rank() == 0 && world.size() == 2 && world.name() == "world";
        world = Group();  // the last handle
        return looks ? count : 99;
      });
      EXPECT_EQ(wrong, 0);
      EXPECT_TRUE(world.made_here());
    }
    all_ranks_agree(world);
  });
}

TEST(Forks, WorksOfTheParentAreOver) {
  spawn_threads(2, [](Group world) {
    std::vector<double> x(1000, 1.0), got(8);
    Work sum, message;
    if (world.rank() == 0) {
      sum = world.all_reduce_async(std::span(x));
      message = world.irecv(std::as_writable_bytes(std::span(got)), 1);
      const int status = in_child([&] {
        for (const Work& work : {sum, message})
          if (!work.done() || work.error() == nullptr || !refused([&] { work.wait(); }) ||
              !refused([&] { work.wait(std::chrono::seconds(1)); }) || !refused([&] { work.on_done([] {}); }))
            return 1;
        sum = message = Work();
        return 0;
      });
      EXPECT_EQ(status, 0);
    } else {
      sum = world.all_reduce_async(std::span(x));
      world.send(std::span(x).first(8), 0);
    }
    sum.wait();
    message.wait();
    EXPECT_EQ(x.front(), 2);
    all_ranks_agree(world);
  });
}

TEST(Forks, AChildHasGroupsOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no threads in the child of a process that has some";
#endif
  spawn_threads(2, [](Group world) {
    all_ranks_agree(world);
    if (world.rank() == 0) {
      const int status = in_child([&] {
        double sum = 0;
        spawn_threads(3, [&](Group own) {
          std::vector<double> x(5000, 1.0);
          own.all_reduce(std::span(x));
          if (own.rank() == 0) sum = x.back();
        });
        // And a child of the child may use neither.
        const Group own = init(Config{});
        const int grandchild =
            in_child([&] { return refused([&] { own.barrier(); }) && refused([&] { world.barrier(); }); });
        own.barrier();
        return sum == 3 && grandchild == 1 ? 0 : 1;
      });
      EXPECT_EQ(status, 0);
    }
    all_ranks_agree(world);
  });
}

TEST(Forks, MemoryOfTheParentIsNotGivenBackByAChild) {
  spawn_threads(2, [](Group world) {
    auto buffer = std::make_unique<Buffer>(world.allocate(1 << 20));
    std::vector<double> own(100'000, 1.0);
    auto registration = std::make_unique<Registration>(world.register_buffer(std::span(own)));
    all_ranks_agree(world);
    if (world.rank() == 0) {
      const int status = in_child([&] {
        registration.reset();
        buffer.reset();
        world = Group();
        return 0;
      });
      EXPECT_EQ(status, 0);
    }
    std::span<double> x = buffer->span<double>();
    std::fill(x.begin(), x.end(), 1.0);
    for (const std::span<double> data : {x, std::span(own)}) {
      world.all_reduce(data, ReduceOp::sum, {.algorithm = "shared"});
      EXPECT_EQ(data.front(), 2);
      EXPECT_EQ(data.back(), 2);
    }
  });
}

TEST(Forks, ABareSystemCallMakesAChild) {
  spawn_threads(2, [](Group world) {
    if (world.rank() == 0) {
      const int status = in_child(
          [&] {
            const bool sees = !world.made_here();
            world.destroy();
            return sees && refused([&] { world.barrier(); }) ? 0 : 1;
          },
          &fork_by_system_call);
      EXPECT_EQ(status, 0);
    }
    all_ranks_agree(world);
  });
}

}  // namespace
}  // namespace unisono
