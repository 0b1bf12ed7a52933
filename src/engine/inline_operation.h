#pragma once
/// The tiny path: the whole operand travels in the line that announces the operation, or beside it. No plan, no stage, no allocation
/// (up to 64 ranks). A line and the operand written and n - 1 of them read on each rank; one phase; source: folklore, "flat with inline payload".

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
  /// Whether it travels so (plan/inline.h): the same answer on every rank.
  bool fits(int size) const noexcept;
  /// Whether the root alone has something to post.
  bool from_root() const noexcept { return collective == Collective::broadcast || collective == Collective::scatter; }
  /// Bytes of one rank's part.
  std::int64_t block() const noexcept { return count * static_cast<std::int64_t>(size_of(dtype)); }
};

class InlineOperation final : public Running {
 public:
  InlineOperation(const InlineCall& call, Domain& domain, const Signature& signature, std::uint64_t sequence);
  bool advance() override;
  std::vector<int> waiting_for() const override;

 private:
  static constexpr std::size_t kFew = 64;
  bool announce();
  bool look();
  /// Whether what rank q has announced is waited for. In the line, so that ranks learn at once that they call different things, that of all; of what is larger only what is
  /// needed: a root with something to hand out, or others with something for a root, need not wait until it is taken.
  bool awaits(int q) const noexcept;
  void take();
  void combine();
  const std::byte*& line(int q) {
    return many_.empty() ? few_[static_cast<std::size_t>(q)] : many_[static_cast<std::size_t>(q)];
  }

  InlineCall call_;
  Domain& domain_;
  Signature signature_;
  std::size_t posted_;  ///< bytes, by those who post
  bool announced_ = false;
  int next_ = 0;  ///< ranks below it have arrived
  std::array<const std::byte*, kFew> few_;
  std::vector<const std::byte*> many_;
};

}  // namespace unisono::engine
