#pragma once
/// The rendezvous store: a small key-value service that ranks use to find each other. A seam: bring your own by
/// deriving from Store (the PyTorch back end adapts torch's).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "unisono/export.hpp"

namespace unisono {

using Bytes = std::vector<std::byte>;
using Duration = std::chrono::nanoseconds;

/// Thread-safety: every method may be called from any thread. Every blocking method takes a timeout and throws Timeout
/// naming the keys that are missing; a lost server is SystemError. In a forked child a store of its parent's throws InvalidArgument. Keys are byte strings up to 1 KiB, values up to 8 MiB.
class UNISONO_API Store {
 public:
  virtual ~Store();
  /// Set `key`; replaces an older value.
  virtual void set(std::string_view key, std::span<const std::byte> value) = 0;
  /// The value of `key`, waiting until somebody sets it.
  virtual Bytes get(std::string_view key, Duration timeout) = 0;
  /// Atomically add to an integer (absent counts as 0) and return the sum. The value is stored as decimal text.
  virtual std::int64_t add(std::string_view key, std::int64_t delta) = 0;
  /// Set `key` to `desired` if its value is `expected` (an absent key matches an empty `expected`); the value after it.
  virtual Bytes compare_set(std::string_view key, std::span<const std::byte> expected,
                            std::span<const std::byte> desired) = 0;
  /// Whether all keys are there, without waiting.
  virtual bool check(std::span<const std::string> keys) = 0;
  /// Wait until all keys are there.
  virtual void wait(std::span<const std::string> keys, Duration timeout) = 0;
  /// Remove a key; whether it was there.
  virtual bool erase(std::string_view key) = 0;
  /// One line for error messages: "tcp store at 10.0.0.1:29500".
  virtual std::string describe() const = 0;
};

/// A store inside this process, for ranks that are threads.
UNISONO_API std::shared_ptr<Store> make_memory_store();
/// A store in a file that all ranks can reach (also over NFS); `path` is created when absent.
UNISONO_API std::shared_ptr<Store> make_file_store(const std::string& path);
/// A store at "HOST:PORT", which one process serves and others connect to, as Config::init_method
/// tcp:// says: under a loopback address for this user's processes alone, between hosts with the
/// job's secret. `serve`: this is the process, unless the job's store is there already; it serves
/// as long as the store lives. Blocks until it is reached, at most `timeout`. Throws SystemError,
/// InvalidArgument, AuthenticationError.
UNISONO_API std::shared_ptr<Store> make_tcp_store(const std::string& address, bool serve, Duration timeout);
/// All keys of `inner` under `prefix` + "/".
UNISONO_API std::shared_ptr<Store> make_prefix_store(std::string prefix, std::shared_ptr<Store> inner);

}  // namespace unisono
