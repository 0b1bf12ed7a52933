#include "base/caches.h"

#include <unistd.h>

#include <algorithm>

namespace unisono {

std::size_t second_cache_bytes() noexcept {
#ifdef _SC_LEVEL2_CACHE_SIZE
  return static_cast<std::size_t>(std::max(::sysconf(_SC_LEVEL2_CACHE_SIZE), 0L));
#else
  return 0;
#endif
}

}  // namespace unisono
