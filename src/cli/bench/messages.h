#pragma once
/// Times and checks messages between rank 0 and the last rank, as OSU's osu_latency and osu_bw do.

#include <cstdint>

#include "cli/bench/measure.h"

namespace unisono::cli {

/// Messages that rank 0 has on their way at a time when bandwidth is measured: as many as have 128
/// MiB, 1 to 64.
std::int64_t messages_in_flight(std::int64_t bytes) noexcept;

/// latency: a message goes there and back, and half of that counts. bandwidth: messages_in_flight()
/// of them go one way at a time, an empty one comes back behind the last, and a time is that of one
/// message. The other ranks wait. All ranks of `group`, two or more, call it. Blocks; throws what
/// the group throws.
Measurement measure_messages(const Group& group, const Problem& problem, BenchMode mode, const MeasureOptions& options,
                             BenchMemory& memory);

}  // namespace unisono::cli
