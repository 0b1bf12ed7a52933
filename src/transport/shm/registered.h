#pragma once
/// Callers' memory that is part of a segment: its pages lie at two places of this process, where the caller has them and in the segment.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "base/log.h"
#include "base/map_query.h"
#include "transport/shm/lent.h"
#include "transport/transport.h"

namespace unisono::transport::shm {

class Registered;
class Segment;

/// A segment's bytes that stand for a caller's.
struct Room {
  std::uint64_t offset = 0;  ///< of the first; from 2 MiB on as far behind a multiple of kHugePage as the caller's
  std::uint64_t range = 0, range_bytes = 0;  ///< what was allocated for them, and is released as a whole
};

/// What of this process is registered in one segment. Thread-safety: any thread.
class RegisteredTable {
 public:
  explicit RegisteredTable(Logger log) : log_(std::move(log)) {}
  /// False when a part of its bytes is registered already.
  bool add(const std::shared_ptr<Registered>& memory);
  void remove(const Registered& memory) noexcept;
  /// Nothing as well for memory that its owner has unmapped without releasing it (where the system can tell quickly: Linux 6.11): what lies there
  /// now is not what was registered. The log says so, once for each.
  Place find(const std::byte* data, std::uint64_t bytes) const noexcept;
  RegisteredMemory::Presence presence(const Registered& memory) const noexcept;

 private:
  mutable std::shared_mutex mutex_;
  MapQuery query_;
  std::map<const std::byte*, std::weak_ptr<Registered>> by_begin_;
  Logger log_;
  std::atomic<bool> any_{false};  ///< there never was one: find() need not look
};

class Registered final : public RegisteredMemory {
 public:
  /// nullptr when there is no whole page in [data, data + bytes). `table` is the segment's.
  static Result<std::shared_ptr<Registered>> create(std::shared_ptr<Segment> segment, RegisteredTable& table,
                                                    std::byte* data, std::uint64_t bytes, Freed freed);
  ~Registered() override;
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;

  void release(Contents contents = Contents::kept) noexcept override;
  bool take_over() noexcept override;
  bool shared() const noexcept override { return !released_.load(std::memory_order_relaxed); }
  Presence presence() const noexcept override { return table_.presence(*this); }
  bool copied_for_child() const noexcept override;
  void to_segment(std::uint64_t offset, std::uint64_t bytes) noexcept override;
  void from_segment(std::uint64_t offset, std::uint64_t bytes) noexcept override;

  const Lent& lent() const noexcept { return lent_; }
  /// True once, if it is a mistake that it has been freed.
  bool miss() noexcept { return !missed_.exchange(true); }
  const std::byte* begin() const noexcept { return data_; }
  const std::byte* end() const noexcept { return data_ + bytes_; }
  /// Of `at`, one of its bytes, in the segment.
  std::uint64_t offset_of(const std::byte* at) const noexcept {
    return offset_ + static_cast<std::uint64_t>(at - data_);
  }

 private:
  /// Bytes on a page that is the caller's.
  struct Edge {
    std::byte* own = nullptr;
    std::byte* copy = nullptr;
    std::uint64_t bytes = 0;
  };
  Registered(std::shared_ptr<Segment> segment, RegisteredTable& table, std::byte* data, std::uint64_t bytes,
             Freed freed);
  Status take_pages();
  Edge part_of(const Edge& edge, std::uint64_t offset, std::uint64_t bytes) const noexcept;

  std::shared_ptr<Segment> segment_;
  RegisteredTable& table_;
  std::byte* data_;
  std::uint64_t bytes_;
  std::byte* pages_;                   ///< the page on which it begins
  std::uint64_t pages_bytes_;          ///< up to the end of the page on which it ends
  Room room_;                          ///< of the pages in the segment; no bytes: not yet
  std::uint64_t offset_ = 0;           ///< of the data in the segment
  Lent lent_;                          ///< the whole pages
  int owner_;                          ///< process id
  std::uint64_t forks_ = 0;            ///< of the process, before it was there
  std::atomic<bool> released_{false};  ///< or taken over
  bool stuck_ = false;                 ///< private pages could not be had, or were not wanted
  std::mutex mutex_;                   ///< of what lies at the edges
  std::atomic<bool> missed_{false};    ///< the log has said that its pages are gone, or need not
  std::array<Edge, 2> edges_;
};

}  // namespace unisono::transport::shm
