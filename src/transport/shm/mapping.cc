#include "transport/shm/mapping.h"

#include <sys/mman.h>

#include <cerrno>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // Linux 6.1
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22  // Linux 5.14
#define MADV_POPULATE_WRITE 23
#endif

namespace unisono::transport::shm {

namespace {

/// Addresses that begin `skew` behind a multiple of kHugePage: more than enough are reserved, and what is too much given back.
std::byte* reserve(std::uint64_t bytes, std::uint64_t skew, int access) noexcept {
  const std::uint64_t wide = bytes + kHugePage;
  void* reserved = ::mmap(nullptr, wide, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  auto* begin = static_cast<std::byte*>(reserved);
  const std::uint64_t head = (skew - reinterpret_cast<std::uintptr_t>(begin)) & (kHugePage - 1);
  const std::uint64_t end = (head + bytes + 4095) / 4096 * 4096;
  if (head > 0) ::munmap(begin, head);
  if (end < wide) ::munmap(begin + end, wide - end);
  return begin + head;
}

}  // namespace

std::byte* map_memfd(int fd, std::uint64_t bytes, bool write) noexcept {
  std::byte* at = reserve(bytes, 0, PROT_NONE);
  if (at == nullptr) return nullptr;
  const int access = PROT_READ | (write ? PROT_WRITE : 0);
  void* base = ::mmap(at, bytes, access, MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0);
  if (base == MAP_FAILED) {
    const int error = errno;
    ::munmap(at, bytes);
    errno = error;
    return nullptr;
  }
  ::madvise(base, bytes, MADV_DONTDUMP);  // a core file has no use for it
  return static_cast<std::byte*>(base);
}

std::byte* map_private(std::uint64_t bytes, const std::byte* like) noexcept {
  return reserve(bytes, reinterpret_cast<std::uintptr_t>(like) & (kHugePage - 1), PROT_READ | PROT_WRITE);
}

void map_now(const std::byte* at, std::uint64_t bytes, bool write) noexcept {
  ::madvise(const_cast<std::byte*>(at), bytes, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

void collapse_to_huge_pages(std::byte* at, std::uint64_t bytes) noexcept { ::madvise(at, bytes, MADV_COLLAPSE); }

}  // namespace unisono::transport::shm
