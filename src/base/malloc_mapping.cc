#include "base/malloc_mapping.h"

#include <dlfcn.h>
#include <sys/uio.h>
#include <unistd.h>

namespace unisono {

namespace {

/// Which library a function of this process is in.
const void* library_of(const void* function) noexcept {
  Dl_info about{};
  return function != nullptr && ::dladdr(function, &about) != 0 ? about.dli_fbase : nullptr;
}

/// Whether malloc and free are the C library's, and that one is glibc: jemalloc, sanitizers and the like put theirs before it.
bool malloc_is_glibcs() noexcept {
  const void* const glibc = library_of(::dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
  return glibc != nullptr && glibc == library_of(::dlsym(RTLD_DEFAULT, "malloc")) &&
         glibc == library_of(::dlsym(RTLD_DEFAULT, "free"));
}

/// What glibc keeps before the memory that it returns (malloc/malloc.c, struct malloc_chunk). Of a mapping for one request `before` is where in the mapping
/// this lies, and `size` goes from here to its end; free() unmaps both.
struct Header {
  std::size_t before = 0, size = 0;
};
constexpr std::size_t kFlags = 7, kMapped = 2;  // in the lowest bits of `size`

}  // namespace

std::uint64_t mapped_by_malloc(const void* data) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address % alignof(std::max_align_t) != 0 || address < sizeof(Header) || !malloc_is_glibcs()) return 0;
  // By way of the kernel: when `data` is not malloc's, there may be nothing before it.
  Header header;
  const iovec here{&header, sizeof header};
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const iovec there{reinterpret_cast<void*>(address - sizeof header), sizeof header};
  if (::process_vm_readv(::getpid(), &here, 1, &there, 1, 0) != static_cast<ssize_t>(sizeof header)) return 0;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t begin = address - sizeof header - header.before, size = header.size & ~kFlags;
  const bool mapped = (header.size & kFlags) == kMapped && begin % page == 0 && begin < address &&
                      (header.before + size) % page == 0 && size > sizeof header;
  return mapped ? size - sizeof header : 0;
}

}  // namespace unisono
