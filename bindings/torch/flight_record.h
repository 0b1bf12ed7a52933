#pragma once
/// What a process's groups did last: for whoever looks, after a hang or a crash, for the rank that was somewhere else.
///
/// torch has a recorder of its own (c10d's FlightRecorder), which libtorch does not export for other back ends; this one keeps the
/// same fields, so that torch's tools read it. It takes no Python lock and keeps no stack traces: some 100 ns an operation.

#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "operation.h"

namespace unisono::torch_backend {

/// A ring of the newest operations. Thread-safety: any thread.
class FlightRecord {
 public:
  enum class State : std::uint8_t { started, completed, failed };
  struct Group {
    std::string name, description;
    std::vector<std::uint64_t> ranks;  ///< in the job's numbering
    int self = -1;                     ///< this process in the job's numbering
  };
  struct Shapes {
    c10::SmallVector<std::int64_t, 4> dims;   ///< of each tensor
    c10::SmallVector<std::int64_t, 8> sizes;  ///< one behind the other
    c10::SmallVector<c10::ScalarType, 4> dtypes;
    void set(at::TensorList tensors);
  };
  struct Entry {
    std::uint64_t id = 0;
    std::size_t group = 0;
    const char* title = "";  ///< "unisono:all_reduce"
    std::uint64_t collective_number = 0, message_number = 0;
    int rank = -1, peer = -1;  ///< in the group; the peer of a message
    bool is_message = false;
    Shapes inputs, outputs;
    std::int64_t timeout_ms = 0;
    std::int64_t created_ns = 0, ended_ns = 0;  ///< of the system clock
    State state = State::started;
  };

  /// `capacity` 0: records nothing.
  explicit FlightRecord(std::size_t capacity) : capacity_(capacity) {}
  /// As many entries as TORCH_FR_BUFFER_SIZE says, as for torch's own; 2000 otherwise.
  static std::shared_ptr<FlightRecord> from_environment();

  std::size_t enlist(Group group);
  /// An operation begins: `describe(Entry&)` fills in what is known of it, in place, since that costs less than moving it. The number to end() it with.
  template <class Describe>
  std::uint64_t begin(const Describe& describe) {
    if (capacity_ == 0) return 0;
    const std::int64_t now = system_nanoseconds();
    const std::lock_guard lock(mutex_);
    Entry& entry = next_entry(now);
    describe(entry);
    return entry.id;
  }
  void end(std::uint64_t id, bool well) noexcept;

  /// Copies, oldest first.
  std::vector<Entry> entries() const;
  std::vector<Group> groups() const;

 private:
  static std::int64_t system_nanoseconds() noexcept;
  /// Under mutex_: its number, times and state are set, the rest is of whoever had the place before.
  Entry& next_entry(std::int64_t now);

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::vector<Entry> ring_;
  std::vector<Group> groups_;
  std::uint64_t next_ = 0;
};

}  // namespace unisono::torch_backend
