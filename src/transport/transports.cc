#include "transport/transports.h"

#include <algorithm>
#include <array>

#include "transport/shm/endpoint.h"
#include "transport/tcp/tcp.h"

namespace unisono::transport {

namespace {
constexpr std::array kTransports{
    Kind{"shm", "shared memory between processes of one host", true, shm::make_shm},
    Kind{"tcp", "streams between hosts", false, tcp::make_tcp},
};
}  // namespace

std::span<const Kind> transports() noexcept { return kTransports; }

const Kind* find_transport(std::string_view name) noexcept {
  const auto found =
      std::find_if(kTransports.begin(), kTransports.end(), [&](const Kind& kind) { return kind.name == name; });
  return found == kTransports.end() ? nullptr : &*found;
}

}  // namespace unisono::transport
