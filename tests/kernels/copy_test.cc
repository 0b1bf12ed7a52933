#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel_set.h"

namespace unisono::kernels {
namespace {

constexpr auto kGuard = static_cast<unsigned char>(0xa5);

enum class Way : std::uint8_t { through_caches, around_caches, at_several_places, fetch };
constexpr Way kWays[] = {Way::through_caches, Way::around_caches, Way::at_several_places, Way::fetch};

/// Copies `bytes` between the given misalignments and checks every byte, those around the destination included.
void check_copy(const KernelSet& set, std::size_t bytes, std::size_t from, std::size_t to, Way way) {
  std::vector<unsigned char> in(bytes + 64), out(bytes + 128, kGuard);
  for (std::size_t i = 0; i < in.size(); i++) in[i] = static_cast<unsigned char>(i * 7 + i / 251);
  if (way == Way::fetch)
    set.fetch(out.data() + to, in.data() + from, bytes, false);
  else
    set.copy(out.data() + to, in.data() + from, bytes, way != Way::through_caches, way == Way::at_several_places);
  for (std::size_t i = 0; i < out.size(); i++) {
    const bool inside = i >= to && i < to + bytes;
    ASSERT_EQ(out[i], inside ? in[from + i - to] : kGuard)
        << set.name << ": byte " << i << " of " << bytes << " from +" << from << " to +" << to;
  }
}

TEST(Copy, EverySizeAndAlignment) {
  for (const KernelSet& set : kernel_sets())
    for (const Way way : kWays)
      for (std::size_t bytes = 0; bytes < 1400; bytes += bytes < 300 ? 1 : 13)
        for (const std::size_t from : {0, 1, 3, 16, 33})
          for (const std::size_t to : {0, 1, 7, 8, 63}) check_copy(set, bytes, from, to, way);
}

TEST(Copy, Large) {
  for (const KernelSet& set : kernel_sets())
    for (const Way way : kWays)
      for (const std::size_t bytes : {std::size_t{16383}, std::size_t{16385}, std::size_t{70001}, std::size_t{131072},
                                      (std::size_t{9} << 20) + 11})
        check_copy(set, bytes, 5, 2, way);
}

TEST(Copy, NothingFromNowhere) {
  copy(nullptr, nullptr, 0, true);
  fetch(nullptr, nullptr, 0);
}

}  // namespace
}  // namespace unisono::kernels
