#pragma once
/// Measures what a layout's links cost, once, when a group over several hosts is made and nothing is known of them.

#include "base/status.h"
#include "group/group_impl.h"
#include "group/tuned.h"

namespace unisono::detail {

/// Every rank of a new group calls it, before anything else is sent on it. The lowest rank of each host exchanges messages with those of other hosts, in
/// pairs, side by side, at most eight partners each; two ranks of each host with each other. Then they tell each other
/// through the store; rank 0 works out the rules, and keeps them on disk. The rules, the same on all ranks, empty when the built-in table stands; and, when
/// `count_streams`, over how many streams large messages are to go. About 50 ms for each partner, and 100 ms for the streams. Throws what the group throws.
Tuned measure_links(GroupImpl& group, bool count_streams);

}  // namespace unisono::detail
