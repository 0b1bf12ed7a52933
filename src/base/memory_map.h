#pragma once
/// What is mapped where in this process, as the system says (/proc/self). Allocates nothing: it can be asked in a child that was forked
/// from a process with threads.

#include <array>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace unisono {

struct Mapping {
  std::uintptr_t begin = 0, end = 0;
  std::uint64_t offset = 0;                 ///< of `begin` in its file
  std::uint64_t device = 0;                 ///< as in stat::st_dev
  std::uint64_t inode = 0;                  ///< 0: no file
  bool readable = false, writable = false;  ///< access that is allowed now
  bool executable = false;
  bool shared = false;      ///< what is written here, others see
  std::string_view name{};  ///< a path, "[heap]", "[stack]", ...; the first 63 characters. Valid during the visit
  std::string_view
      flags{};  ///< with Detail::flags: two-letter words, each with a space behind it ("rd wr mr "). Valid during the visit

  bool has_flag(std::string_view two_letters) const noexcept;
};

enum class Detail : unsigned char {
  plain,  ///< quick
  flags  ///< Mapping::flags as well: the system counts all pages of all mappings that are visited, about 0.1 ms for 64 MiB
};

using Visit = bool (*)(void* context, const Mapping& mapping);

/// Calls `visit` for each mapping in the order of addresses, until it returns false. It may change mappings at or below the one that it
/// is shown. 0, or the errno with which the system refused to tell. Any thread.
int visit_mappings(Detail detail, void* context, Visit visit) noexcept;

template <class F>
int for_each_mapping(Detail detail, F&& look) noexcept {
  return visit_mappings(detail, &look, [](void* context, const Mapping& m) {
    return (*static_cast<std::remove_reference_t<F>*>(context))(m);
  });
}

}  // namespace unisono
