#pragma once
/// Pages of a memfd in the place of a caller's private ones: what it takes to put them there, and to give the caller private pages again. Buffers, which lie
/// in the segment's own mapping, are such pages from the beginning.
/// No state: who has lent what is in LentList and Registered. docs/design/0011-registered-buffers.md says why it is done so.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/map_query.h"
#include "base/memory_map.h"
#include "transport/transport.h"

namespace unisono::transport::shm {

/// Whole pages of this process's addresses.
struct Lent {
  std::byte* at = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t device = 0, inode = 0;  ///< the file whose pages lie there,
  std::uint64_t offset = 0;             ///< from here on
  bool huge = false;                    ///< the private pages were to be huge ones (MADV_HUGEPAGE), and will be again
};

/// Whether a mapping is of the file that was put at `lent`, and as it was put there.
bool still_lent(const Mapping& m, const Lent& lent) noexcept;

/// Whether [at, at + bytes) is memory that can be lent: ordinary private memory, which nothing but its contents distinguishes. InvalidArgument
/// that says what it is otherwise. Sets `huge`.
Status may_lend(const std::byte* at, std::uint64_t bytes, bool& huge);

/// Puts the file's pages, which hold the contents already, in the place of the private ones. Other threads find one or the other, never
/// nothing, but what they write there meanwhile is lost. After an error the memory is private, with its contents.
Status lend(const Lent& lent, int fd, const std::byte* contents);

/// How many of the file's pages still lie there. Without an answer from `query`: all.
RegisteredMemory::Presence presence(const Lent& lent, const MapQuery& query) noexcept;

/// Puts private pages with the same contents, or with none, wherever the file's pages still lie at `lent`: what their owner has
/// unmapped, and perhaps uses for something else, is left alone. What is written there meanwhile may be lost. 0, or an errno: then some stay shared.
int make_private(const Lent& lent, RegisteredMemory::Contents contents) noexcept;

/// The same with the contents and without loss, whoever of this process writes meanwhile: the pages become copies of the file's, one by one. Slower, and never
/// huge pages again. `fd`: of the file. 0, or an errno: then all stay shared, or, of what is private, some may still show what is written to the file.
int take_over(const Lent& lent, int fd) noexcept;

/// Calls put(begin, end, mapping) for each piece of `lent` where the file's pages still lie. Allocates no memory of the heap, so it can be called
/// in a forked child. 0, or an errno.
template <class Put>
int for_each_piece(std::span<const Lent> all, Put&& put) noexcept {
  return for_each_mapping(Detail::plain, [&](const Mapping& m) {
    for (const Lent& lent : all) {
      const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(lent.at);
      const std::uintptr_t begin = std::max(m.begin, at), end = std::min(m.end, at + lent.bytes);
      if (begin < end && still_lent(m, lent)) put(lent, begin, end, m);
    }
    return true;
  });
}

}  // namespace unisono::transport::shm
