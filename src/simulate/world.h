#pragma once
/// The plans of a group in the form that the engine of the simulator runs: what each step costs, what it waits for, and where messages go.
/// Pure.
///
/// Classes. Ranks whose plans differ only by a shift of hosts (rank + i ranks_per_host everywhere, modulo the group) are one class with
/// `copies` members; the group then is classes x copies ranks, rank = copy * classes + class. Without such a symmetry every rank is a class of
/// its own and copies is 1.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "plan/ir.h"
#include "plan/registry.h"
#include "simulate/program.h"

namespace unisono::simulate {

/// A step of a class.
struct Op {
  plan::OpCode op = plan::OpCode::copy;
  std::int32_t blocks = 0;     ///< a message's blocks; those that a copy or reduce writes
  std::int32_t additions = 0;  ///< reduce: operands but the first. copy: 0 where it is nothing in place
  std::uint32_t needs = 0;     ///< steps before it, and a message or signal for recv and wait
  std::uint32_t successors = 0, successors_end = 0;  ///< in World::successors, as numbers of the same class's steps
  std::uint32_t targets = 0, targets_end = 0;        ///< send and signal: in World::targets
  std::uint32_t touches = 0, touches_end = 0;        ///< work on memory: in World::touches
};

/// Where a message or signal arrives: step `op` of class `to`, `shift` hosts further.
struct Target {
  std::int32_t to = 0, shift = 0;
  std::uint32_t op = 0;
};

struct World {
  plan::Shape shape;  ///< hosts filled in for every rank; rank 0
  std::int32_t hosts = 1, classes = 1, copies = 1;
  bool staged = false, shared = false;
  std::int32_t blocks = 1;           ///< into how many blocks the collective's bytes are cut
  std::vector<Op> ops;               ///< of all classes
  std::vector<std::uint32_t> first;  ///< by class and one more: its steps in ops
  std::vector<std::uint32_t> successors;
  std::vector<Target> targets;
  std::vector<Touch> touches;  ///< where the shape has NUMA nodes
  std::int64_t messages = 0;   ///< of all ranks, for one slice
  std::int32_t compared = 0;   ///< plans that were compared to find the symmetry

  std::uint32_t size_of(std::int32_t c) const {
    return first[static_cast<std::size_t>(c) + 1] - first[static_cast<std::size_t>(c)];
  }
};

/// The world of an algorithm; `shape.hosts` must name a host for every rank (consecutive numbers, ascending with rank unless uneven).
/// An error when it is too large to be built, saying how large it is, or has messages without a counterpart.
Result<World> build_world(const plan::Algorithm& algorithm, const plan::Shape& shape);

}  // namespace unisono::simulate
