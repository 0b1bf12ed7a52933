#pragma once
/// How much a test does: more in `make test-long`, which sets UNISONO_TEST_SCALE.

#include <algorithm>
#include <cstdlib>

namespace unisono::test {

/// By how much the long suite does more; 1 in the short one.
inline int scale() {
  const char* text = std::getenv("UNISONO_TEST_SCALE");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}
inline bool long_suite() { return scale() > 1; }

}  // namespace unisono::test
