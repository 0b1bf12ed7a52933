#pragma once
/// The tiny path: the whole operand travels in the line that announces the operation. No plan, no stage, no allocation
/// (up to 64 ranks). One cache line written and n - 1 read on each rank; one phase; source: folklore, "flat with inline payload".

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/domain.h"
#include "engine/running.h"

namespace unisono::engine {

/// A collective with equal counts. Offsets and sizes as in unisono::Call.
struct InlineCall {
  Collective collective = Collective::barrier;
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::int64_t count = 0;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::sum;
  int root = 0;
  /// Whether it fits into a line: the same answer on every rank.
  bool fits(int size) const noexcept;
  /// Bytes of one rank's part, and of what a rank puts into its line.
  std::int64_t block() const noexcept { return count * static_cast<std::int64_t>(size_of(dtype)); }
  std::int64_t posted(int size) const noexcept;
};

class InlineOperation final : public Running {
 public:
  InlineOperation(const InlineCall& call, Domain& domain, const Signature& signature, std::uint64_t sequence);
  bool advance() override;
  std::vector<int> waiting_for() const override;

 private:
  static constexpr std::size_t kFew = 64;
  bool announce();
  void take();
  void combine();
  const std::byte*& line(int q) {
    return many_.empty() ? few_[static_cast<std::size_t>(q)] : many_[static_cast<std::size_t>(q)];
  }

  InlineCall call_;
  Domain& domain_;
  Signature signature_;
  bool announced_ = false;
  int next_ = 0;  ///< ranks below it have arrived
  std::array<const std::byte*, kFew> few_;
  std::vector<const std::byte*> many_;
};

}  // namespace unisono::engine
