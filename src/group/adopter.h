#pragma once
/// Ordinary memory that large collectives and messages come back to: its pages become shared ones where it is, so that programs which know nothing of
/// Group::allocate have its speed, too. docs/design/0012-memory-that-comes-back.md says which memory, and why that is safe.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace unisono::detail {

class ContextImpl;
class RegistrationImpl;

/// Decides what is worth it. One for a context. Pages change only in begin() and withdraw(), when the memory is an operation's; what is shared when the
/// context ends stays so until it is freed. Thread-safety: any thread.
class Adopter {
 public:
  explicit Adopter(bool enabled) : enabled_(enabled) {}
  ~Adopter();
  Adopter(const Adopter&) = delete;
  Adopter& operator=(const Adopter&) = delete;

  /// A collective or a message begins, and [data, data + bytes) is its operand, which other ranks would read or write if it were shared; until it ends nobody
  /// else writes there. The third time, and when that was for 128 MiB in all, the memory is registered with the context's segment, which takes
  /// about as long as six copies of it: only what malloc has mapped for this alone, and not in a process that has devices.
  void begin(const ContextImpl& context, const void* data, std::size_t bytes) noexcept;
  /// An operation on [data, data + bytes) has failed, and a peer may still write there: what lies within is private again.
  void withdraw(const void* data, std::size_t bytes) noexcept;
  /// The program is about to register memory itself. If all of it is shared here, it is registered already, with the rules of what is registered, and this is
  /// it. Otherwise null, and none of it is shared here any more.
  std::shared_ptr<RegistrationImpl> hand_over(std::byte* data, std::size_t bytes);

 private:
  struct Candidate {
    std::uint64_t uses = 0;    ///< since it was last tried
    std::uint64_t needed = 3;  ///< before it is tried: what has come back twice will come again
  };
  using Key = std::pair<const std::byte*, std::size_t>;  ///< where, and how many bytes
  struct Shared {
    std::shared_ptr<RegistrationImpl> registration;
    std::uint64_t uses = 0;  ///< since
  };
  using Adopted = std::map<Key, Shared>;

  bool try_again(const Key& key);
  /// Empty, or why not.
  std::string adopt(const ContextImpl& context, const Key& key);
  /// Private again, if nobody else wants it shared.
  void make_private(Adopted::iterator which) noexcept;
  void drop_freed() noexcept;

  const bool enabled_;
  std::mutex mutex_;
  std::map<Key, Candidate> candidates_;
  Adopted adopted_;
  std::uint64_t bytes_ = 0;  ///< of all that is adopted
  std::uint64_t begun_ = 0;  ///< calls of begin()
  bool forks_ = false;       ///< the process has forked when something was adopted: nothing is any more
};

}  // namespace unisono::detail
