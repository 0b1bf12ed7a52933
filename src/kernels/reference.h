#pragma once
/// The scalar reference as a table, for reduce_reference() and the set "scalar".

#include "kernels/kernels.h"
#include "kernels/unit/table.h"

namespace unisono::kernels {

extern const unit::Table kReferenceTable;

}  // namespace unisono::kernels
