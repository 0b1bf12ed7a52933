#pragma once
/// Operations in flight, and waiting for several of them.

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "unisono/config.hpp"
#include "unisono/export.hpp"

namespace unisono {

namespace detail {
class WorkImpl;
}

/// What a recv got.
struct Received {
  int source = -1;
  std::int64_t tag = 0;
  std::int64_t bytes = 0;
  friend bool operator==(const Received&, const Received&) = default;
};

/// An operation in flight. The buffers must live until it is done; dropping the last copy of a Work
/// does not cancel it. Thread-safety: any thread.
class UNISONO_API Work {
 public:
  Work() = default;  ///< empty: done() is true
  /// Wait until it is done; throws what went wrong. With a timeout: throws Timeout when it passes,
  /// and the operation goes on.
  void wait() const;
  /// `interrupted`: as Options has it, but the operation goes on, and waiting can be repeated.
  void wait(Duration timeout, bool (*interrupted)() noexcept = nullptr) const;
  /// Never blocks; looks for a short message that has come meanwhile. True in a forked child, where
  /// error() says why.
  bool done() const noexcept;
  /// The error as an exception pointer, when it is done and failed.
  std::exception_ptr error() const noexcept;
  /// For recv, after it is done.
  Received received() const noexcept;
  /// Call `f` when it is done (at once when it is): on the thread that completes it, which must not
  /// block in f.
  /// `tells`: the program may learn of the end by f, so its memory is its own again. False: f keeps
  /// a log, say, and UNISONO_DEBUG=buffers goes on checking; nobody reckons with what f might send.
  void on_done(std::function<void()> f, bool tells = true) const;
  /// The program asks no more, though a copy is kept: UNISONO_DEBUG=buffers checks until the end.
  void disown() const noexcept;
  /// Give up a receive to which nothing has come: true, and it ends with Aborted; the group and all
  /// other operations go on. False: something has come or is coming, or it is no receive, and it
  /// ends as it would have. Never blocks.
  bool cancel() const;

 private:
  friend class Group;
  friend UNISONO_API std::optional<std::size_t> wait_any(std::span<const Work> works, Duration timeout);
  explicit Work(std::shared_ptr<detail::WorkImpl> impl);
  std::shared_ptr<detail::WorkImpl> impl_;
};

/// Wait until all are done, in any order; then throws what went wrong with the first of them that
/// failed. With a timeout: throws Timeout when it passes; those that are not done go on.
UNISONO_API void wait_all(std::span<const Work> works);
UNISONO_API void wait_all(std::span<const Work> works, Duration timeout);
/// Wait until one is done, well or not, and return its index; wait() on it throws what went wrong.
/// Where several are, the first of them. Throws InvalidArgument when there is none to wait for.
UNISONO_API std::size_t wait_any(std::span<const Work> works);
/// The same; nothing when the timeout passes.
UNISONO_API std::optional<std::size_t> wait_any(std::span<const Work> works, Duration timeout);
/// Whether all are done, well or not. Never blocks.
UNISONO_API bool test_all(std::span<const Work> works) noexcept;

}  // namespace unisono
