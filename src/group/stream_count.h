#pragma once
/// Over how many streams large messages to another host travel fastest.

#include "group/group_impl.h"

namespace unisono::detail {

/// Both ranks of a pair call it, with nothing else under way between them. Both send portions at once, slice by slice, over one, two and four streams by
/// turns, of a length that takes some 8 ms at `beta` seconds a byte. On the lower rank: the smallest number that no larger one beats by half; 0 on
/// the other. Streams that are too many are closed again. Some 0.1 s. Throws what the group throws.
int measure_streams(GroupImpl& group, int other, double beta);

}  // namespace unisono::detail
