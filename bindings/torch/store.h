#pragma once
/// torch's store as unisono's: groups meet where torch's processes met.

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <unisono/store.hpp>

namespace unisono::torch_backend {

/// As a Duration, a hundred years at most: as good as none, and far from overflowing nanoseconds. Far below zero is what
/// becomes of datetime.timedelta.max on its way here (64 bits of microseconds).
Duration saturated(std::chrono::milliseconds timeout);

/// Keys and values go through unchanged (torch has put its prefix around the store already). Remembers what it set, so that a
/// second group over the same store does not read the addresses of the first. Thread-safety: any thread, as far as torch's
/// store has it. A missed key is Timeout, everything else that the store raises SystemError with its text.
class TorchStore final : public Store {
 public:
  explicit TorchStore(c10::intrusive_ptr<c10d::Store> store) : store_(std::move(store)) {}

  void set(std::string_view key, std::span<const std::byte> value) override;
  Bytes get(std::string_view key, Duration timeout) override;
  std::int64_t add(std::string_view key, std::int64_t delta) override;
  Bytes compare_set(std::string_view key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override;
  bool check(std::span<const std::string> keys) override;
  void wait(std::span<const std::string> keys, Duration timeout) override;
  bool erase(std::string_view key) override;
  std::string describe() const override { return "torch store"; }

  /// Whether ranks can only be on this host, by what torch was told: it listens on a loopback address.
  bool on_this_host() const;
  /// Remove what this rank set, when everybody has read it. A store that cannot delete keeps it.
  void forget() noexcept;

 private:
  void remember(std::string_view key);

  c10::intrusive_ptr<c10d::Store> store_;
  std::mutex mutex_;
  std::set<std::string, std::less<>> mine_;
};

}  // namespace unisono::torch_backend
