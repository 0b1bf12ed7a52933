#pragma once
/// Which of this host's addresses the ranks on other hosts should use.

#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "rendezvous/environment.h"
#include "unisono/config.hpp"

namespace unisono::rendezvous {

/// Of each name in config.interface the first address of that interface (or the name itself, where it is an address), each
/// once. Else one address: from which the host of config.init_method (MASTER_ADDR for env://) is reached, by the kernel's
/// routes; of the default route, where that names no other host (file://); the first that is up and not loopback. IPv6
/// link-local addresses come last, with their zone (fe80::1%eth0). No packet is sent. Logs what was chosen and why.
Result<std::vector<std::string>> interface_addresses(const Config& config, const Logger& log,
                                                     const Environment& environment = process_environment());

}  // namespace unisono::rendezvous
