#pragma once
/// The examinations of `unisono doctor`. Each tries the thing itself rather than asking what should work: containers and
/// sandboxes forbid what the kernel has. None changes anything, none sends a packet off the host.

#include "cli/doctor_report.h"

namespace unisono::cli {

void examine_processor(Findings& findings);      ///< cores, quota, vector units, clock
void examine_memory(Findings& findings);         ///< size, limits
void examine_shared_memory(Findings& findings);  ///< memfd, seals, passing descriptors, pidfd, CMA
void examine_network(Findings& findings);        ///< interfaces, host name
void examine_limits(Findings& findings);         ///< open files, locked memory, address space
void examine_job(Findings& findings);            ///< launcher, transport: what unisono would do here

}  // namespace unisono::cli
