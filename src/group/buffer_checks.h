#pragma once
/// UNISONO_DEBUG=buffers: finds programs that change the memory of an operation in flight. Such an
/// operation runs on copies. When it ends, and again when the program learns of that, the program's
/// memory is compared with what it was, or with the result.

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/process_mark.h"
#include "engine/completion.h"
#include "group/buffers.h"
#include "transport/transport.h"

namespace unisono::group {

/// Memory of the program's that an operation reads or writes.
struct Area {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
  const char* name = "";  ///< "input", "output", "data"
  bool written = false;
  bool overlaps(const Area& other) const noexcept {
    return begin < other.begin + other.bytes && other.begin < begin + bytes;
  }
};

/// What reports say of an operation.
struct Subject {
  std::string operation;    ///< with its group
  std::string rank;         ///< "rank 1 (host a, pid 7)"
  std::size_t element = 1;  ///< bytes; 1: the memory is bytes
  bool blocking = false;    ///< the caller waits, so another thread changed it
};

class BufferChecks;

/// The memory of one operation. Thread-safety: any thread.
class CheckedBuffers final : public engine::EndCheck {
 public:
  CheckedBuffers(std::shared_ptr<BufferChecks> checks, Subject subject, std::span<const Area> areas);
  ~CheckedBuffers() override;
  CheckedBuffers(const CheckedBuffers&) = delete;
  CheckedBuffers& operator=(const CheckedBuffers&) = delete;

  /// Where the operation finds what the program has at `data`.
  std::byte* copy_of(const void* data) const noexcept;
  Status ended(Status status, const engine::Arrival& arrival) override;
  Status seen() override;
  void disown() override;
  Status outcome() const override;

 private:
  friend class BufferChecks;
  /// In shared memory where the program's is there: then the same algorithms can run.
  struct Copy {
    std::shared_ptr<detail::Allocation> shared;
    std::unique_ptr<std::byte[]> own;
    std::byte* data() const noexcept { return shared ? shared->data() : own.get(); }
  };
  /// An area, or two that overlap: the call is in place.
  struct Region {
    Area all, written;                      ///< the latter of 0 bytes where it is only read
    Copy work;                              ///< what the operation reads and writes
    std::unique_ptr<std::byte[]> expected;  ///< null where that is `work`, which is only read
    const std::byte* right() const noexcept { return expected ? expected.get() : work.data(); }
  };
  void copy();
  Status compare(const char* when) const;
  Status report(const Region& region, const char* when) const;
  void forget();  ///< it is in flight no more

  const std::shared_ptr<BufferChecks> checks_;
  const Subject subject_;
  std::vector<Area> areas_;
  mutable std::mutex mutex_;  // guards what follows
  std::vector<Region> regions_;
  Status outcome_;
  bool ended_ = false;
  bool seen_ = false;  ///< the end, by the program; it may do with its memory what it likes
};

/// The operations in flight of the groups of one Context: from their call until the program has
/// learned of their end, or dropped them. Thread-safety: any thread.
class BufferChecks : public std::enable_shared_from_this<BufferChecks> {
 public:
  BufferChecks(std::shared_ptr<detail::BufferPool> pool, std::shared_ptr<transport::SharedSegment> segment, Logger log)
      : pool_(std::move(pool)), segment_(std::move(segment)), log_(std::move(log)) {}

  /// Throws InvalidArgument when one of `areas` is memory of another operation in flight, and one of
  /// the two writes there. SystemError: no memory for the copies.
  std::shared_ptr<CheckedBuffers> begin(Subject subject, std::span<const Area> areas);

 private:
  friend class CheckedBuffers;
  void enter(CheckedBuffers& operation);
  void leave(const CheckedBuffers& operation) noexcept;
  CheckedBuffers::Copy copy(const Area& area) const;

  const ProcessMark process_;
  const std::shared_ptr<detail::BufferPool> pool_;
  const std::shared_ptr<transport::SharedSegment> segment_;  ///< may be null
  const Logger log_;
  std::mutex mutex_;
  std::vector<CheckedBuffers*> operations_;
};

}  // namespace unisono::group
