#pragma once

namespace unisono::group {

/// Whether more threads of the whole machine run, or could if they had a processor, than there are processors; false where the system does not say. Reads a file of
/// /proc: some microseconds.
bool crowded();

}  // namespace unisono::group
