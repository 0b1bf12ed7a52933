#include "transport/shm/mapping.h"

#include <sys/mman.h>

#include <cerrno>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif

namespace unisono::transport::shm {

std::byte* map_memfd(int fd, std::uint64_t bytes, bool write) noexcept {
  // Reserve enough addresses to choose an aligned start among them, then put the file over the middle.
  const std::uint64_t wide = bytes + kHugePage;
  void* reserved = ::mmap(nullptr, wide, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(reserved);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::uint64_t head = (kHugePage - address % kHugePage) % kHugePage;
  const int access = PROT_READ | (write ? PROT_WRITE : 0);
  void* base = ::mmap(begin + head, bytes, access, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (base == MAP_FAILED) {
    const int error = errno;
    ::munmap(begin, wide);
    errno = error;
    return nullptr;
  }
  const std::uint64_t end = (head + bytes + 4095) / 4096 * 4096;
  if (head > 0) ::munmap(begin, head);
  if (end < wide) ::munmap(begin + end, wide - end);
  ::madvise(base, bytes, MADV_DONTDUMP);  // a core file has no use for it
  return static_cast<std::byte*>(base);
}

void collapse_to_huge_pages(std::byte* at, std::uint64_t bytes) noexcept { ::madvise(at, bytes, MADV_COLLAPSE); }

}  // namespace unisono::transport::shm
