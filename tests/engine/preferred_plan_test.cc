/// Of two shared plans the one runs that the ranks' open buffers allow, on all ranks alike: three ranks in one thread.

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "engine/simulated_world.h"

namespace unisono::engine::test {
namespace {

constexpr int kMembers = 3;
constexpr std::size_t kBlock = 5000;

/// What of a rank's buffers lies in its segment.
struct Open {
  bool in, out;
};

/// An all_gather that may pull (inputs), be done by owners (outputs), or neither: then it is staged, or read by the rival.
class Gathering {
 public:
  Gathering(const std::vector<Open>& open, bool rival) {
    for (int r = 0; r < kMembers; r++) start(r, open[static_cast<std::size_t>(r)], rival);
  }

  /// All ranks in turn; what ran, if that is the same everywhere and the results are right.
  std::string run() {
    for (int turn = 0; turn < 10'000 && !all_done(); turn++)
      for (auto& operation : operation_) operation->advance();
    if (!all_done()) return "it hangs";
    for (int r = 0; r < kMembers; r++) {
      const Operation& operation = *operation_[r];
      if (!operation.status().ok()) return operation.status().message();
      if (operation.algorithm() != operation_[0]->algorithm()) return "the ranks do not agree";
      for (std::size_t i = 0; i < kMembers * kBlock; i++)
        if (out_[r][i] != value(static_cast<int>(i / kBlock), i % kBlock)) return "wrong on rank " + std::to_string(r);
    }
    return std::string(operation_[0]->algorithm());
  }

 private:
  static std::byte value(int r, std::size_t i) { return static_cast<std::byte>((i * 7 >> 3 ^ i) + 31u * r + 1); }
  bool all_done() const {
    for (const auto& operation : operation_)
      if (!operation->done()) return false;
    return true;
  }

  std::byte* memory(SimulatedRank& rank, bool open, std::size_t bytes) {
    if (open) return rank.segment->base() + rank.segment->allocate_buffer(bytes).value();
    private_.push_back(std::make_unique<std::byte[]>(bytes));
    return private_.back().get();
  }

  void start(int r, Open open, bool rival) {
    SimulatedRank& rank = world_.rank(r);
    std::byte* const in = memory(rank, open.in, kBlock);
    for (std::size_t i = 0; i < kBlock; i++) in[i] = value(r, i);
    out_[r] = memory(rank, open.out, kMembers * kBlock);
    std::memset(out_[r], 0, kMembers * kBlock);
    const Ground ground = world_.ground(r);
    const auto prepared = std::make_shared<Prepared>();
    const auto plan = [&](const char* name) {
      return world_.bound_plan(
          {.collective = Collective::all_gather, .algorithm = name, .dtype = DType::u8, .count = kBlock}, r);
    };
    prepared->usual = plan("staged");
    prepared->shared = plan("shared");
    prepared->preferred = plan("shared_by_owner");
    if (rival) prepared->rival = plan("single_copy");
    prepared->dtype = DType::u8;
    prepared->signature = Signature::make({Collective::all_gather, DType::u8, ReduceOp::sum, 0, false, 0}, kBlock);
    operation_[r] = std::make_unique<Operation>(
        Request{.prepared = prepared, .in = in, .out = out_[r], .rival_runs = rival}, ground, 1);
  }

  SimulatedWorld world_{kMembers, {}, 0};
  std::vector<std::unique_ptr<std::byte[]>> private_;
  std::byte* out_[kMembers] = {};
  std::unique_ptr<Operation> operation_[kMembers];
};

TEST(PreferredPlan, RunsWhereAllOpenWhatItNeedsAndTheOtherSharedOneWhereTheyOpenThat) {
  for (const bool rival : {false, true})
    for (int which = 0; which < 1 << 2 * kMembers; which++) {
      std::vector<Open> open;
      bool inputs = true, outputs = true;
      for (int r = 0; r < kMembers; r++) {
        open.push_back({(which >> 2 * r & 1) != 0, (which >> 2 * r & 2) != 0});
        inputs &= open.back().in;
        outputs &= open.back().out;
      }
      const char* const expected = outputs ? "shared_by_owner" : inputs ? "shared" : rival ? "single_copy" : "staged";
      ASSERT_EQ(Gathering(open, rival).run(), expected) << which;
    }
}

}  // namespace
}  // namespace unisono::engine::test
