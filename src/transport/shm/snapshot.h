#pragma once
/// The contents of lent pages at the time of a fork, for the children to map: one copy for all of
/// them, however many they are.

#include <span>
#include <vector>

#include "base/fd.h"
#include "base/status.h"
#include "transport/shm/lent.h"

namespace unisono::transport::shm {

/// A memfd that nobody writes to once it is there. Children map it privately, so each has pages of
/// its own only where it writes. The system frees it when this is gone and the last child has
/// ended. Thread-safety: one thread at a time.
class Snapshot {
 public:
  /// An error when there is no memory, or no descriptor, for it.
  static Result<Snapshot> take(std::span<const Lent> all);
  Snapshot(Snapshot&& other) noexcept;
  Snapshot& operator=(Snapshot&&) = delete;
  ~Snapshot();

  /// Whether `all` is the same memory as then, and contains the same: then it serves another child.
  bool still_right(std::span<const Lent> all) const noexcept;
  /// In a child: its pages take the place of those of `all`. Only system calls. 0, or an errno.
  int put(std::span<const Lent> all) const noexcept;
  /// In a child, which has what it needs. Frees nothing.
  void leave_to_parent() noexcept;

 private:
  /// A part of what was lent, which lay there then.
  struct Piece {
    std::byte* at;
    std::uint64_t bytes, offset;
    friend bool operator==(const Piece&, const Piece&) = default;
  };
  static Result<std::vector<Piece>> pieces_of(std::span<const Lent> all);
  Snapshot() = default;

  Fd file_;
  std::vector<Piece> pieces_;
  std::byte* memory_ = nullptr;  ///< mapped here for comparing; not in children
  std::uint64_t bytes_ = 0;
};

/// In a child that can have no snapshot: nothing lies at `all` any more, and who touches it is
/// ended by the system. Only system calls. 0, or an errno.
int put_nothing(std::span<const Lent> all) noexcept;

}  // namespace unisono::transport::shm
