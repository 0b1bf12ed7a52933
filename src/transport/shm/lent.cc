#include "transport/shm/lent.h"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "transport/shm/layout.h"
#include "transport/shm/mapping.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14
#endif

namespace unisono::transport::shm {

namespace {

std::uintptr_t address(const std::byte* at) noexcept { return reinterpret_cast<std::uintptr_t>(at); }
std::byte* pointer(std::uintptr_t at) noexcept { return reinterpret_cast<std::byte*>(at); }

/// Private copies of what was registered before: of this library's segments and snapshots.
constexpr std::string_view kOwnFiles = "/memfd:unisono";

/// Why a mapping cannot be lent, or nullptr.
const char* objection(const Mapping& m) noexcept {
  if (m.shared) return "is shared memory already (is it registered twice, or does another array that is overlap it?)";
  if (!m.readable || !m.writable) return "cannot be written to";
  if (m.executable) return "holds code";
  if (m.inode != 0 && !m.name.starts_with(kOwnFiles)) return "belongs to a file";
  if (m.name.starts_with("[stack")) return "is a stack";
  if (m.inode == 0 && !m.name.empty() && m.name != "[heap]" && !m.name.starts_with("[anon"))
    return "belongs to the system";
  struct Reason {
    std::string_view flag;
    const char* text;
  };
  // proc_pid_smaps(5) has the letters.
  constexpr std::array kReasons{Reason{"lo", "is locked in memory (mlock)"},
                                Reason{"gd", "is a stack"},
                                Reason{"ht", "lies on pages of hugetlbfs"},
                                Reason{"dc", "is kept from forked children (MADV_DONTFORK)"},
                                Reason{"wf", "is wiped in forked children (MADV_WIPEONFORK)"},
                                Reason{"um", "is watched by userfaultfd"},
                                Reason{"uw", "is watched by userfaultfd"},
                                Reason{"io", "belongs to a device"},
                                Reason{"pf", "belongs to a device"}};
  for (const Reason& reason : kReasons)
    if (m.has_flag(reason.flag)) return reason.text;
  return nullptr;
}

bool on_own_stack(const std::byte* at, std::uint64_t bytes) noexcept {
  pthread_attr_t about;
  if (::pthread_getattr_np(::pthread_self(), &about) != 0) return false;
  void* stack = nullptr;
  std::size_t size = 0;
  ::pthread_attr_getstack(&about, &stack, &size);
  ::pthread_attr_destroy(&about);
  const auto low = reinterpret_cast<std::uintptr_t>(stack);
  return address(at) < low + size && low < address(at) + bytes;
}

/// Private pages at the same place, with nothing on them. 0 or an errno.
int replace_empty(std::byte* at, std::uint64_t bytes, const Mapping& found, bool huge) noexcept {
  const int access = (found.readable ? PROT_READ : 0) | (found.writable ? PROT_WRITE : 0);
  if (::mmap(at, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) return errno;
  if (huge) ::madvise(at, bytes, MADV_HUGEPAGE);
  return 0;
}

/// The same contents on private pages, at the same place. 0 or an errno.
int replace(std::byte* at, std::uint64_t bytes, const Mapping& found, bool huge) noexcept {
  if (!found.readable && ::mprotect(at, bytes, PROT_READ) != 0) return errno;
  std::byte* fresh = map_private(bytes, at);
  if (fresh == nullptr) return errno;
  if (huge) ::madvise(fresh, bytes, MADV_HUGEPAGE);
  std::memcpy(fresh, at, bytes);
  const int access = (found.readable ? PROT_READ : 0) | (found.writable ? PROT_WRITE : 0);
  if ((!found.readable || !found.writable) && ::mprotect(fresh, bytes, access) != 0) return errno;
  if (::mremap(fresh, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED) return 0;
  const int error = errno;
  ::munmap(fresh, bytes);
  return error;
}

/// Map a file's pages privately over themselves. 0 or an errno. Other threads may be writing there:
/// a store before it reaches the file, one after it a copy, and the bytes stay what they are. So
/// the kernel is asked directly, as ThreadSanitizer takes mmap() for a store into every byte.
int map_over(std::byte* at, std::uint64_t bytes, int fd, std::uint64_t offset) noexcept {
  constexpr int kHow = MAP_PRIVATE | MAP_FIXED;
  return ::syscall(SYS_mmap, at, bytes, PROT_READ | PROT_WRITE, kHow, fd, offset) == -1 ? errno : 0;
}

/// Copies of a file's pages, which take their place one by one.
int copy_pages(std::byte* at, std::uint64_t bytes) noexcept {
  if (::madvise(at, bytes, MADV_POPULATE_WRITE) == 0) return 0;
  if (errno != EINVAL) return errno;
  for (std::uint64_t page = 0; page < bytes; page += kPage) {  // before Linux 5.14
    std::atomic_ref<unsigned char> byte(*reinterpret_cast<unsigned char*>(at + page));
    unsigned char same = byte.load();
    byte.compare_exchange_strong(same, same);  // a write, and nobody's is lost
  }
  return 0;
}

}  // namespace

bool still_lent(const Mapping& m, const Lent& lent) noexcept {
  return m.shared && m.inode == lent.inode && m.device == lent.device &&
         m.offset - m.begin == lent.offset - address(lent.at);
}

Status may_lend(const std::byte* at, std::uint64_t bytes, bool& huge) {
  if (on_own_stack(at, bytes))
    return Status::invalid("the memory is on the stack of the thread that registers it; give memory of the heap");
  std::uintptr_t reached = address(at);
  const std::uintptr_t end = reached + bytes;
  std::string refused;
  huge = true;
  const int error = for_each_mapping(Detail::flags, [&](const Mapping& m) {
    if (m.end <= reached) return true;
    if (m.begin > reached || reached >= end) return false;
    if (const char* what = objection(m))
      refused = fmt::format("the memory from {:#x} to {:#x} {}", m.begin, m.end, what);
    huge &= m.has_flag("hg");
    reached = m.end;
    return refused.empty() && reached < end;
  });
  if (error != 0) return Status::system("cannot find out what the memory is (/proc/self/smaps)", error);
  if (refused.empty() && reached < end) refused = fmt::format("there is no memory at {:#x}", reached);
  if (refused.empty()) return {};
  return Status::invalid(refused +
                         "; only ordinary private memory can be registered. A copy of it can, or use Group::allocate");
}

Status lend(const Lent& lent, int fd, const std::byte* contents) {
  constexpr int kHow = MAP_SHARED | MAP_FIXED | MAP_POPULATE;
  if (::mmap(lent.at, lent.bytes, PROT_READ | PROT_WRITE, kHow, fd, static_cast<off_t>(lent.offset)) != MAP_FAILED)
    return {};
  const int error = errno;
  // Before Linux 6.12 a failure (no memory for the system's tables) may come after the old pages have gone.
  constexpr int kPrivate = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
  if (::mmap(lent.at, lent.bytes, PROT_READ | PROT_WRITE, kPrivate, -1, 0) != MAP_FAILED)
    std::memcpy(lent.at, contents, lent.bytes);
  return Status::system(fmt::format("cannot map shared memory over {} bytes at {:#x}", lent.bytes, address(lent.at)),
                        error);
}

RegisteredMemory::Presence presence(const Lent& lent, const MapQuery& query) noexcept {
  using Presence = RegisteredMemory::Presence;
  if (!query) return Presence::all;
  const std::uintptr_t begin = address(lent.at), end = begin + lent.bytes;
  bool whole = true, any = false;
  for (std::uintptr_t at = begin; at < end;) {
    const auto found = query.from(at);  // the next one, where there is a hole
    if (!found || found->begin >= end) {
      whole = false;
      break;
    }
    const bool lies_there = still_lent(*found, lent);
    any |= lies_there;
    whole &= lies_there && found->begin <= at;
    if (any && !whole) break;
    at = found->end;
  }
  return whole ? Presence::all : any ? Presence::some : Presence::none;
}

int make_private(const Lent& lent, RegisteredMemory::Contents contents) noexcept {
  const auto put = contents == RegisteredMemory::Contents::kept ? replace : replace_empty;
  int failed = 0;
  const int unread =
      for_each_piece({&lent, 1}, [&](const Lent&, std::uintptr_t begin, std::uintptr_t end, const Mapping& m) {
        if (const int error = put(pointer(begin), end - begin, m, lent.huge); error != 0) failed = error;
      });
  return failed != 0 ? failed : unread;
}

int take_over(const Lent& lent, int fd) noexcept {
  int failed = 0;
  const int unread =
      for_each_piece({&lent, 1}, [&](const Lent&, std::uintptr_t begin, std::uintptr_t end, const Mapping& m) {
        // Who may not write there has nothing to lose; but the pages have to be copied all the same.
        if (const int error = map_over(pointer(begin), end - begin, fd, m.offset + (begin - m.begin)); error != 0) {
          failed = error;
          return;
        }
        if (const int error = copy_pages(pointer(begin), end - begin); error != 0) failed = error;
        if (m.readable && m.writable) return;
        const int access = (m.readable ? PROT_READ : 0) | (m.writable ? PROT_WRITE : 0);
        if (::mprotect(pointer(begin), end - begin, access) != 0) failed = errno;
      });
  return failed != 0 ? failed : unread;
}

}  // namespace unisono::transport::shm
