#include "base/memory_binder.h"

#include <fmt/format.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <vector>

namespace unisono {

namespace {

class KernelBinder final : public MemoryBinder {
 public:
  Status prefer(std::byte* area, std::uint64_t bytes, int node) override {
    constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;
    const auto bit = static_cast<std::size_t>(node);
    std::vector<unsigned long> nodes(bit / kBits + 1, 0);
    nodes[bit / kBits] = 1ul << (bit % kBits);
    // The kernel takes one bit less than it is told.
    if (::syscall(SYS_mbind, area, bytes, MPOL_PREFERRED, nodes.data(), nodes.size() * kBits + 1, 0) == 0) return {};
    const int error = errno;
    return Status::system(
        fmt::format("cannot bind {} bytes of memory to NUMA node {} (mbind{})", bytes, node,
                    error == EPERM
                        ? "; in a container it takes the capability SYS_NICE, or a seccomp profile that allows it"
                        : ""),
        error);
  }
};

}  // namespace

std::shared_ptr<MemoryBinder> make_memory_binder() { return std::make_shared<KernelBinder>(); }

}  // namespace unisono
