#include "transport/shm/registered.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "transport/shm/layout.h"
#include "transport/shm/lent_list.h"
#include "transport/shm/segment.h"

namespace unisono::transport::shm {

namespace {

std::byte* page_of(std::byte* at) noexcept { return at - reinterpret_cast<std::uintptr_t>(at) % kPage; }

/// Copies what differs: who reads the same bytes for another operation sees no store.
void copy_changes(std::byte* to, const std::byte* from, std::uint64_t bytes) noexcept {
  if (bytes > 0 && std::memcmp(to, from, bytes) != 0) std::memcpy(to, from, bytes);
}

}  // namespace

// --- the table -------------------------------------------------------------------------------------------------------

bool RegisteredTable::add(const std::shared_ptr<Registered>& memory) {
  const std::lock_guard lock(mutex_);
  const auto next = by_begin_.lower_bound(memory->begin());
  if (next != by_begin_.end() && next->first < memory->end()) return false;
  if (next != by_begin_.begin())
    if (const auto before = std::prev(next)->second.lock(); before != nullptr && memory->begin() < before->end())
      return false;
  if (!query_) query_ = MapQuery::open();
  by_begin_.insert_or_assign(memory->begin(), memory);
  any_.store(true, std::memory_order_release);
  return true;
}

void RegisteredTable::remove(const Registered& memory) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = by_begin_.find(memory.begin());
  if (found != by_begin_.end() && found->second.lock().get() == &memory) by_begin_.erase(found);
}

Place RegisteredTable::find(const std::byte* data, std::uint64_t bytes) const noexcept {
  if (!any_.load(std::memory_order_acquire)) return {};
  const std::shared_lock lock(mutex_);
  const auto after = by_begin_.upper_bound(data);
  if (after == by_begin_.begin()) return {};
  auto found = std::prev(after)->second.lock();
  if (found == nullptr || data >= found->end() || bytes > static_cast<std::uint64_t>(found->end() - data)) return {};
  if (shm::presence(found->lent(), query_) != RegisteredMemory::Presence::all) {
    if (found->miss())
      log_.warn(
          fmt::format("memory at {} was registered, but has been freed or unmapped since: collectives on what lies "
                      "there now copy it. Release a registration before its memory",
                      fmt::ptr(found->begin())));
    return {};
  }
  const std::uint64_t offset = found->offset_of(data);
  return {offset, std::move(found)};
}

RegisteredMemory::Presence RegisteredTable::presence(const Registered& memory) const noexcept {
  const std::shared_lock lock(mutex_);
  return shm::presence(memory.lent(), query_);
}

// --- one of them -----------------------------------------------------------------------------------------------------

Registered::Registered(std::shared_ptr<Segment> segment, RegisteredTable& table, std::byte* data, std::uint64_t bytes,
                       Freed freed)
    : segment_(std::move(segment)),
      table_(table),
      data_(data),
      bytes_(bytes),
      pages_(page_of(data)),
      pages_bytes_(static_cast<std::uint64_t>(page_of(data + bytes + kPage - 1) - pages_)),
      owner_(::getpid()),
      missed_(freed == Freed::at_any_time) {
  lent_.at = page_of(data + kPage - 1);
  std::byte* const end = page_of(data + bytes);
  lent_.bytes = end > lent_.at ? static_cast<std::uint64_t>(end - lent_.at) : 0;
}

Result<std::shared_ptr<Registered>> Registered::create(std::shared_ptr<Segment> segment, RegisteredTable& table,
                                                       std::byte* data, std::uint64_t bytes, Freed freed) {
  std::shared_ptr<Registered> made(new Registered(std::move(segment), table, data, bytes, freed));
  if (made->lent_.bytes == 0) return std::shared_ptr<Registered>();
  UNISONO_TRY(made->take_pages());
  if (!table.add(made)) {
    made->release();
    return Status::invalid("a part of the memory is registered already; give up that registration first");
  }
  return made;
}

/// The segment's pages take the place of the caller's.
Status Registered::take_pages() {
  struct stat about{};
  if (::fstat(segment_->fd(), &about) != 0) return Status::system("cannot examine the shared segment", errno);
  const auto room = segment_->allocate_like(pages_, pages_bytes_);
  if (!room) return room.status();
  room_ = *room;
  offset_ = room_.offset + static_cast<std::uint64_t>(data_ - pages_);
  std::byte* const home = segment_->base() + offset_;
  lent_.device = about.st_dev;
  lent_.inode = about.st_ino;
  lent_.offset = offset_ + static_cast<std::uint64_t>(lent_.at - data_);
  std::byte* const lent_end = lent_.at + lent_.bytes;
  edges_ = {Edge{data_, home, static_cast<std::uint64_t>(lent_.at - data_)},
            Edge{lent_end, home + (lent_end - data_), static_cast<std::uint64_t>(data_ + bytes_ - lent_end)}};
  const auto prepare = [&] {
    Status status = may_lend(lent_.at, lent_.bytes, lent_.huge);
    if (status) std::memcpy(home, data_, bytes_);
    return status;
  };
  const Status lent = LentList::of_process().add(lent_, segment_->fd(), segment_->base() + lent_.offset, prepare);
  released_ = !lent.ok();
  forks_ = LentList::of_process().forks();
  return lent;
}

Registered::~Registered() {
  if (::getpid() == owner_ && room_.range_bytes != 0 && !stuck_) segment_->release(room_.range, room_.range_bytes);
}

void Registered::release(Contents contents) noexcept {
  if (::getpid() != owner_) return;  // a forked child: its pages are private, and the segment its parent's
  {
    const std::lock_guard lock(mutex_);
    if (released_.exchange(true)) return;
  }
  table_.remove(*this);
  if (contents == Contents::left) {
    stuck_ = true;
    return;
  }
  if (const Status status = LentList::of_process().remove(lent_, contents); !status) {
    stuck_ = true;
    segment_->log().error(status.message());
  }
}

bool Registered::take_over() noexcept {
  if (::getpid() != owner_) return true;
  {
    const std::lock_guard lock(mutex_);
    if (released_.exchange(true)) return !stuck_;
  }
  table_.remove(*this);
  const Status status = LentList::of_process().take_over(lent_, segment_->fd());
  if (!status) {
    stuck_ = true;
    segment_->log().error(status.message());
  }
  return status.ok();
}

bool Registered::copied_for_child() const noexcept { return LentList::of_process().forks() != forks_; }

/// What of an edge lies among the `bytes` at `offset` of the segment.
Registered::Edge Registered::part_of(const Edge& edge, std::uint64_t offset, std::uint64_t bytes) const noexcept {
  const auto at = static_cast<std::uint64_t>(edge.copy - segment_->base());
  const std::uint64_t begin = std::max(at, offset), end = std::min(at + edge.bytes, offset + bytes);
  if (released_ || begin >= end) return {};
  return {edge.own + (begin - at), edge.copy + (begin - at), end - begin};
}

void Registered::to_segment(std::uint64_t offset, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  for (const Edge& edge : edges_) {
    const Edge part = part_of(edge, offset, bytes);
    copy_changes(part.copy, part.own, part.bytes);
  }
}

void Registered::from_segment(std::uint64_t offset, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  for (const Edge& edge : edges_) {
    const Edge part = part_of(edge, offset, bytes);
    copy_changes(part.own, part.copy, part.bytes);
  }
}

}  // namespace unisono::transport::shm
