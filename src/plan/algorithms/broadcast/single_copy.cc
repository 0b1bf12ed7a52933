#include "plan/patterns.h"

/// The shared algorithm on buffers anywhere (single_copy_of).
///
/// Source: folklore; through the kernel: Jin, Sur, Chai, Panda 2005 (LiMIC). Phases: 1. From others' buffers: 1 S a rank.
namespace unisono::plan::broadcast {

Plan shared(const Shape& shape);
Cost shared_cost(const Shape& shape);

Plan single_copy(const Shape& shape) { return single_copy_of(shared(shape)); }
Cost single_copy_cost(const Shape& shape) { return shared_cost(shape); }

}  // namespace unisono::plan::broadcast
