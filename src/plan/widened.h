#pragma once
/// Sums of f16 and bf16 in several steps, rounded once.
///
/// An algorithm with partial sums (registry.h) would round each of them to 16 bits, and so would
/// every hop over a network: 2048 + 1 + 1 + 1 would be 2050 in f16, and the sum of two numbers that
/// an average brings back into range infinity. So the engine runs such a plan widened: what a
/// reduce adds up lies in wide scratch (ir.h), travels as f32, and is rounded when the final reduce
/// has made it whole. Inputs that are sent to be added travel as f32, too; whole sums as 16 bits.
///
/// Bytes: those of the algorithm, twice for what is sent on the way to a sum.

#include "plan/ir.h"

namespace unisono::plan {

/// `plan`, of a collective that reduces, with messages and without stages, widened. Which messages
/// are wide follows from the plan alone: a sender knows what is whole, and a receiver whether it
/// adds what it gets. That both agree is proved by verify() for every algorithm with partial sums.
Plan widened(const Plan& plan);

}  // namespace unisono::plan
