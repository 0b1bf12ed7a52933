#pragma once
/// One rank's plan with all that time does not depend on taken away. Part of build_world(). Pure.

#include <cstdint>
#include <vector>

#include "plan/ir.h"

namespace unisono::simulate {

/// Memory of one NUMA node that a step reads or writes. Only of plans whose shape says who is on which.
struct Touch {
  std::int32_t node = 0;
  std::int32_t blocks = 0;
  bool writes = false;
  friend bool operator==(const Touch&, const Touch&) = default;
};

/// A step; neighbours on a lane that do the same kind of local work after the same steps are one.
struct Line {
  plan::OpCode op = plan::OpCode::copy;
  std::uint16_t channel = 0;
  std::int32_t peer = -1;
  std::int32_t blocks = 0, additions = 0;
  std::uint32_t needs = 0, needs_end = 0;      ///< in Program::needs
  std::uint32_t touches = 0, touches_end = 0;  ///< in Program::touches
  friend bool operator==(const Line&, const Line&) = default;
};

struct Program {
  std::vector<Line> lines;
  std::vector<std::uint32_t> needs;  ///< lines before it, its own lane's included
  std::vector<Touch> touches;
};

Program simplify(const plan::Plan& plan);

}  // namespace unisono::simulate
