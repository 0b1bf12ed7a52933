#include "engine/signature.h"

#include <gtest/gtest.h>

namespace unisono::engine {
namespace {

TEST(Signature, FieldsComeBack) {
  const Signature s = Signature::make({Collective::reduce, DType::bf16, ReduceOp::max, 70000, true, 41}, 1u << 30);
  const Signature::Fields f = s.fields();
  EXPECT_EQ(f.collective, Collective::reduce);
  EXPECT_EQ(f.dtype, DType::bf16);
  EXPECT_EQ(f.op, ReduceOp::max);
  EXPECT_EQ(f.root, 70000);
  EXPECT_TRUE(f.uneven);
  EXPECT_EQ(f.algorithm, 41);
}

TEST(Signature, EveryFieldCounts) {
  const Signature s = Signature::make({Collective::all_reduce, DType::f32, ReduceOp::sum, 0, false, 0}, 10);
  EXPECT_NE(s, Signature::make({Collective::broadcast, DType::f32, ReduceOp::sum, 0, false, 0}, 10));
  EXPECT_NE(s, Signature::make({Collective::all_reduce, DType::i32, ReduceOp::sum, 0, false, 0}, 10));
  EXPECT_NE(s, Signature::make({Collective::all_reduce, DType::f32, ReduceOp::avg, 0, false, 0}, 10));
  EXPECT_NE(s, Signature::make({Collective::all_reduce, DType::f32, ReduceOp::sum, 1, false, 0}, 10));
  EXPECT_NE(s, Signature::make({Collective::all_reduce, DType::f32, ReduceOp::sum, 0, true, 0}, 10));
  EXPECT_NE(s, Signature::make({Collective::all_reduce, DType::f32, ReduceOp::sum, 0, false, 1}, 10));
  EXPECT_NE(s, Signature::make({Collective::all_reduce, DType::f32, ReduceOp::sum, 0, false, 0}, 11));
}

TEST(Signature, SaysInWordsWhatWasCalled) {
  EXPECT_EQ(Signature::make({Collective::all_reduce, DType::f32, ReduceOp::sum, 0, false, 0}, 1024).describe(),
            "all_reduce f32 sum of 1024 elements (4.0 KiB)");
  EXPECT_EQ(Signature::make({Collective::broadcast, DType::i8, ReduceOp::sum, 3, false, 0}, 1).describe(),
            "broadcast i8 of 1 element (1 B) root 3");
  EXPECT_EQ(Signature::make({Collective::barrier, DType::u8, ReduceOp::sum, 0, false, 0}, 0).describe(), "barrier");
}

}  // namespace
}  // namespace unisono::engine
