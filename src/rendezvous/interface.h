#pragma once
/// Which of this host's addresses the ranks on other hosts should use.

#include <string>
#include <vector>

#include "base/log.h"
#include "base/status.h"
#include "rendezvous/environment.h"
#include "unisono/config.hpp"

namespace unisono::rendezvous {

/// Of each name in config.interface the first address of that interface (or the name itself, where it is an address), each once; else the one address from
/// which the host of config.init_method (MASTER_ADDR for env://) is reached, by the kernel's routes; else the first address that
/// is up and not loopback. No packet is sent. Logs what was chosen and why.
Result<std::vector<std::string>> interface_addresses(const Config& config, const Logger& log,
                                                     const Environment& environment = process_environment());

}  // namespace unisono::rendezvous
