#include "transport/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include "transport/shm/lent_list.h"
#include "transport/shm/mapping.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace unisono::transport::shm {

namespace {

constexpr std::uint64_t kSmallChunk = 64 << 10;
/// From here on memory that is registered may take up to 4 MiB more, an eighth at most, so that its ends lie on huge pages, too.
constexpr std::uint64_t kWholePages = 32 << 20;
/// A signal restarts an interrupted fallocate from zero: in pieces it gets on.
constexpr std::uint64_t kCommitPiece = 4 << 20;

constexpr std::uint64_t round_up(std::uint64_t n, std::uint64_t to) noexcept { return (n + to - 1) / to * to; }

/// What an allocation really takes, so that release() finds the same figure.
constexpr std::uint64_t footprint(std::uint64_t bytes) noexcept {
  return bytes < kPage ? round_up(std::max<std::uint64_t>(bytes, 1), kLine) : round_up(bytes, kPage);
}

Fd create_memfd() noexcept {
  Fd fd(::memfd_create("unisono", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL));
  if (!fd && errno == EINVAL) fd = Fd(::memfd_create("unisono", MFD_CLOEXEC | MFD_ALLOW_SEALING));  // before Linux 6.3
  return fd;
}

}  // namespace

Result<std::shared_ptr<Segment>> Segment::create(std::uint64_t bytes, Logger log,
                                                 const std::optional<MemoryHome>& home) {
  bytes = round_up(std::max(bytes, 2 * kHeaderBytes), kPage);
  Fd fd = create_memfd();
  if (!fd) return Status::system("cannot create shared memory (memfd_create)", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0)
    return Status::system(fmt::format("cannot size shared memory to {} bytes", bytes), errno);
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return Status::system("cannot seal shared memory", errno);
  std::byte* base = map_memfd(fd.get(), bytes, true);
  if (base == nullptr) return Status::system(fmt::format("cannot map {} bytes of shared memory", bytes), errno);
  std::shared_ptr<Segment> segment(new Segment(std::move(fd), base, bytes, std::move(log)));
  // Before the first page: what is there stays where it is.
  if (home)
    if (const Status bound = home->binder->prefer(base, bytes, home->node); !bound)
      segment->log_.warn(fmt::format("shared memory: {}", bound.message()));
  UNISONO_TRY(segment->commit(0, kHeaderBytes));
  auto* header = new (base) SegmentHeader{};
  header->magic = kMagic;
  header->version = kVersion;
  header->bytes = bytes;
  header->base = reinterpret_cast<std::uintptr_t>(base);
  struct stat about{};
  if (::fstat(segment->fd_.get(), &about) != 0) return Status::system("cannot examine shared memory", errno);
  segment->device_ = about.st_dev;
  segment->inode_ = about.st_ino;
  if (::getrandom(&header->nonce, sizeof header->nonce, 0) != sizeof header->nonce)
    return Status::system("cannot get a random number", errno);
  return segment;
}

Segment::Segment(Fd fd, std::byte* base, std::uint64_t bytes, Logger log)
    : fd_(std::move(fd)), base_(base), bytes_(bytes), log_(std::move(log)) {
  pages_.give(kHeaderBytes, bytes - kHeaderBytes);
}

Segment::~Segment() { ::munmap(base_, bytes_); }

/// Backs a range with memory now, so that a full machine is an error here and not a SIGBUS later.
Status Segment::commit(std::uint64_t offset, std::uint64_t bytes) noexcept {
  for (std::uint64_t done = 0; done < bytes;) {
    const std::uint64_t piece = std::min(kCommitPiece, bytes - done);
    if (::fallocate(fd_.get(), 0, static_cast<off_t>(offset + done), static_cast<off_t>(piece)) == 0) {
      done += piece;
      continue;
    }
    if (errno == EINTR) continue;
    const int error = errno;
    punch(offset, done);
    return Status::system(
        fmt::format("cannot commit {} bytes of shared memory (is the machine's or the container's memory full?)",
                    bytes),
        error);
  }
  return {};
}

/// Gives pages back to the system; they read as zero afterwards.
void Segment::punch(std::uint64_t offset, std::uint64_t bytes) noexcept {
  if (bytes == 0) return;
  int rc = 0;
  do {
    rc = ::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                     static_cast<off_t>(bytes));
  } while (rc != 0 && errno == EINTR);
  if (rc != 0) std::memset(base_ + offset, 0, bytes);  // kept, but zero
}

Result<std::uint64_t> Segment::allocate(std::uint64_t bytes) {
  auto offset = allocate_aligned(bytes, kPage);
  if (offset && bytes >= kPage) map_now(base_ + *offset, bytes, true);
  return offset;
}

Result<std::uint64_t> Segment::allocate_buffer(std::uint64_t bytes) {
  if (bytes < kHugePage) return allocate(bytes);
  auto offset = allocate_aligned(bytes, kHugePage);
  if (!offset) return offset;
  collapse_to_huge_pages(base_ + *offset, bytes);
  map_now(base_ + *offset, bytes, true);
  return offset;
}

Result<Room> Segment::allocate_like(const std::byte* like, std::uint64_t bytes) {
  const std::uint64_t skew = bytes < kHugePage ? 0 : reinterpret_cast<std::uintptr_t>(like) % kHugePage;
  const bool whole = bytes >= kWholePages;
  const std::uint64_t head = whole ? skew : 0, wide = whole ? round_up(skew + bytes, kHugePage) : bytes;
  const auto range = allocate_aligned(wide, bytes < kHugePage ? kPage : kHugePage, skew - head);
  if (!range) return range.status();
  const std::uint64_t first = round_up(*range, kHugePage), end = (*range + wide) / kHugePage * kHugePage;
  if (first < end) collapse_to_huge_pages(base_ + first, end - first);
  return Room{*range + head, *range, wide};
}

Result<std::uint64_t> Segment::allocate_aligned(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t skew) {
  if (bytes > bytes_)
    return Status::system(fmt::format("{} bytes do not fit a shared segment of {}", bytes, bytes_), ENOMEM);
  const std::lock_guard lock(mutex_);
  auto offset = bytes < kPage ? allocate_small(footprint(bytes)) : allocate_pages(footprint(bytes), alignment, skew);
  if (!offset) return offset;
  live_.emplace(*offset, footprint(bytes));
  allocated_.fetch_add(footprint(bytes), std::memory_order_relaxed);
  return offset;
}

Result<std::uint64_t> Segment::allocate_pages(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t skew) {
  const auto offset = pages_.take(bytes, alignment, skew);
  if (!offset)
    return Status::system(
        fmt::format("the shared segment is full: {} bytes wanted, {} of {} in use", bytes, allocated(), bytes_),
        ENOMEM);
  if (Status status = commit(*offset, bytes); !status) {
    pages_.give(*offset, bytes);
    return status;
  }
  return *offset;
}

Result<std::uint64_t> Segment::allocate_small(std::uint64_t bytes) {
  auto offset = small_.take(bytes, kLine);
  if (!offset) {
    auto chunk = allocate_pages(kSmallChunk, kPage, 0);
    if (!chunk) return chunk;
    small_.give(*chunk, kSmallChunk);  // for good: small things come and go
    offset = small_.take(bytes, kLine);
  }
  std::memset(base_ + *offset, 0, bytes);
  return *offset;
}

/// A buffer as memory that was lent: the pages are whole ones, and the program has them at the segment's own address.
Lent Segment::lent_at(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  return {base_ + offset, footprint(bytes), device_, inode_, offset, false};
}

Status Segment::hand_out(std::uint64_t offset, std::uint64_t bytes) {
  if (offset % kPage != 0) return Status::internal("a part of a page cannot be handed out");
  return LentList::of_process().add(lent_at(offset, bytes));
}

bool Segment::take_over(std::uint64_t offset, std::uint64_t bytes) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!taken_over_.emplace(offset, footprint(bytes)).second) return true;
    any_taken_over_.store(true, std::memory_order_release);
  } catch (const std::exception&) {
    return false;
  }
  const Status status = LentList::of_process().take_over(lent_at(offset, bytes), fd_.get());
  if (!status) log_.error(status.message());
  return status.ok();
}

bool Segment::take_back(std::uint64_t offset, std::uint64_t bytes) noexcept {
  LentList::of_process().forget(lent_at(offset, bytes));
  const std::lock_guard lock(mutex_);
  const auto found = taken_over_.find(offset);
  if (found == taken_over_.end()) return true;
  constexpr int kHow = MAP_SHARED | MAP_FIXED | MAP_NORESERVE;
  if (::mmap(base_ + offset, found->second, PROT_READ | PROT_WRITE, kHow, fd_.get(), static_cast<off_t>(offset)) ==
      MAP_FAILED) {
    log_.error(Status::system("cannot map shared memory again; it is not used any more", errno).message());
    return false;
  }
  ::madvise(base_ + offset, found->second, MADV_DONTDUMP);
  taken_over_.erase(found);
  return true;
}

bool Segment::taken_over(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  if (!any_taken_over_.load(std::memory_order_acquire)) return false;
  const std::lock_guard lock(mutex_);
  const auto after = taken_over_.lower_bound(offset + std::max<std::uint64_t>(bytes, 1));
  if (after == taken_over_.begin()) return false;
  const auto last = std::prev(after);
  return last->first + last->second > offset;
}

void Segment::release(std::uint64_t offset, std::uint64_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(offset);
  if (found == live_.end() || found->second != footprint(bytes)) {
    log_.error("a range of shared memory was released that was not allocated: please report this");
    return;
  }
  allocated_.fetch_sub(found->second, std::memory_order_relaxed);
  auto node = live_.extract(found);
  if (bytes < kPage) {
    small_.give(std::move(node));
    return;
  }
  punch(offset, footprint(bytes));
  pages_.give(std::move(node));
}

Result<std::shared_ptr<RegisteredMemory>> Segment::register_memory(std::byte* data, std::uint64_t bytes, Freed freed) {
  auto made = Registered::create(shared_from_this(), registered_, data, bytes, freed);
  if (!made) return made.status();
  return std::shared_ptr<RegisteredMemory>(std::move(made).value());
}

Place Segment::find(const void* data, std::uint64_t bytes) const noexcept {
  LentList::of_process().contents_change();
  const auto at = reinterpret_cast<std::uintptr_t>(data), base = reinterpret_cast<std::uintptr_t>(base_);
  if (at >= base && at - base <= bytes_ && bytes <= bytes_ - (at - base))
    return taken_over(at - base, bytes) ? registered_.find(static_cast<const std::byte*>(data), bytes)
                                        : Place{at - base, nullptr};
  return registered_.find(static_cast<const std::byte*>(data), bytes);
}

}  // namespace unisono::transport::shm
