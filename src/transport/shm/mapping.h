#pragma once
/// Mappings of memfds. Pure wrappers around the system: no state.

#include <cstddef>
#include <cstdint>

namespace unisono::transport::shm {

inline constexpr std::uint64_t kHugePage = 2 << 20;

/// Maps the first `bytes` of `fd` at a multiple of kHugePage, so that what lies on huge pages in the file can do so here, too.
/// Not part of core files; nothing is reserved. nullptr with errno when the system refuses.
std::byte* map_memfd(int fd, std::uint64_t bytes, bool write) noexcept;

/// Puts [at, at + bytes) on huge pages where the system can, whatever its default is. A wish: a refusal changes nothing but speed.
void collapse_to_huge_pages(std::byte* at, std::uint64_t bytes) noexcept;

/// Has the pages of [at, at + bytes), which the file has already, mapped here at once, for writing or reading: one by one, as each is touched first, it takes twice as
/// long and more, in the middle of what is measured in microseconds (docs/design/0009-stages.md). A wish.
void map_now(const std::byte* at, std::uint64_t bytes, bool write) noexcept;

/// Private memory whose address is as far behind a multiple of kHugePage as `like` is, so that what lies on huge pages in one can do so in the
/// other. Nothing is reserved. nullptr with errno when the system refuses.
std::byte* map_private(std::uint64_t bytes, const std::byte* like) noexcept;

}  // namespace unisono::transport::shm
