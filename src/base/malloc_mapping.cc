#include "base/malloc_mapping.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

namespace unisono {

namespace {

/// Where the library begins that has the definition of what is named so among those behind the program, in the order in which they are asked.
const void* library_behind_the_program(const char* name) noexcept {
  void* const program = ::dlopen(nullptr, RTLD_LAZY);
  link_map* library = nullptr;
  const bool listed = program != nullptr && ::dlinfo(program, RTLD_DI_LINKMAP, static_cast<void*>(&library)) == 0;
  const void* found = nullptr;
  for (library = listed ? library->l_next : nullptr; library != nullptr && found == nullptr;
       library = library->l_next) {
    void* const open = ::dlopen(library->l_name, RTLD_LAZY | RTLD_NOLOAD);
    if (open == nullptr) continue;  // the kernel's vdso
    Dl_info about{};
    const void* const function = ::dlsym(open, name);  // its own, or one of a library that it needs
    if (function != nullptr && ::dladdr(function, &about) != 0 && std::strcmp(about.dli_fname, library->l_name) == 0)
      found = about.dli_fbase;
    ::dlclose(open);
  }
  if (program != nullptr) ::dlclose(program);
  return found;
}

/// Where the library begins to which calls of what is named so lead; null when there is none.
const void* library_of(const char* name) noexcept {
  Dl_info about{};
  void* symbol = nullptr;
  const void* const function = ::dlsym(RTLD_DEFAULT, name);
  if (function == nullptr || ::dladdr1(function, &about, &symbol, RTLD_DL_SYMENT) == 0) return nullptr;
  // A program that is not position independent, as Debian's Python, and asks for the function's address has an entry of its own for it: the address for
  // all, but not the definition.
  const bool entry = symbol != nullptr && static_cast<const ElfW(Sym)*>(symbol)->st_shndx == SHN_UNDEF;
  return entry ? library_behind_the_program(name) : about.dli_fbase;
}

/// Whether malloc and free are the C library's, and that one is glibc: jemalloc, sanitizers and the like put theirs before it.
bool malloc_is_glibcs() noexcept {
  const void* const glibc = library_of("gnu_get_libc_version");
  return glibc != nullptr && glibc == library_of("malloc") && glibc == library_of("free");
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
