#include "base/map_query.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

namespace unisono {

namespace {

/// struct procmap_query of linux/fs.h, which is newer than many systems' headers.
struct Query {
  std::uint64_t size, flags, address;                          // in
  std::uint64_t begin, end, access, page_size, offset, inode;  // out
  std::uint32_t major, minor;                                  // out
  std::uint32_t name_size, build_id_size;                      // in and out; 0: not wanted
  std::uint64_t name_address, build_id_address;
};
static_assert(sizeof(Query) == 104);
constexpr std::uint64_t kReadable = 1, kWritable = 2, kExecutable = 4, kShared = 8;
constexpr std::uint64_t kOrTheNext = 16;
constexpr unsigned long kAsk = _IOWR('f', 17, Query);

}  // namespace

MapQuery MapQuery::open() noexcept {
  MapQuery made;
  made.file_ = Fd(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  if (made.file_ && !made.from(reinterpret_cast<std::uintptr_t>(&made))) made.file_.reset();
  return made;
}

std::optional<Mapping> MapQuery::from(std::uintptr_t address) const noexcept {
  Query q{};
  q.size = sizeof q;
  q.flags = kOrTheNext;
  q.address = address;
  if (::ioctl(file_.get(), kAsk, &q) != 0) return std::nullopt;
  Mapping m;
  m.begin = q.begin, m.end = q.end;
  m.offset = q.offset, m.inode = q.inode;
  m.device = ::makedev(q.major, q.minor);
  m.readable = (q.access & kReadable) != 0, m.writable = (q.access & kWritable) != 0;
  m.executable = (q.access & kExecutable) != 0, m.shared = (q.access & kShared) != 0;
  return m;
}

}  // namespace unisono
