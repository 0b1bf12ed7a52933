#pragma once
/// Which of this host's addresses the ranks on other hosts should use.

#include <string>

#include "base/log.h"
#include "base/status.h"
#include "rendezvous/environment.h"
#include "unisono/config.hpp"

namespace unisono::rendezvous {

/// config.interface when it is an address, or the first address of the interface of that name; else the address from which
/// the host of config.init_method (MASTER_ADDR for env://) is reached, by the kernel's routes; else the first address that
/// is up and not loopback. No packet is sent. Logs what was chosen and why.
Result<std::string> interface_address(const Config& config, const Logger& log,
                                      const Environment& environment = process_environment());

}  // namespace unisono::rendezvous
