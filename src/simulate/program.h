#pragma once
/// One rank's plan with all that time does not depend on taken away. Part of build_world(). Pure.

#include <cstdint>
#include <vector>

#include "plan/ir.h"

namespace unisono::simulate {

/// A step; neighbours on a lane that do the same kind of local work after the same steps are one.
struct Line {
  plan::OpCode op = plan::OpCode::copy;
  std::uint16_t channel = 0;
  std::int32_t peer = -1;
  std::int32_t blocks = 0, additions = 0;
  std::uint32_t needs = 0, needs_end = 0;  ///< in Program::needs
  friend bool operator==(const Line&, const Line&) = default;
};

struct Program {
  std::vector<Line> lines;
  std::vector<std::uint32_t> needs;  ///< lines before it, its own lane's included
};

Program simplify(const plan::Plan& plan);

}  // namespace unisono::simulate
