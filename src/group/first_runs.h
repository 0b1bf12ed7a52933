#pragma once
/// Which algorithms have run on a group, by kind of call: UNISONO_LOG=info says each of them once.

#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include "unisono/types.hpp"

namespace unisono::group {

/// Calls that are told together: of one collective, element type and reduction, and of sizes with
/// as many binary digits.
struct CallKind {
  Collective collective = Collective::barrier;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::sum;  ///< sum where nothing is reduced
  int digits = 0;               ///< of the collective's bytes
  bool uneven = false;          ///< with counts

  friend auto operator<=>(const CallKind&, const CallKind&) = default;
};

/// Thread-safety: one thread at a time.
class FirstRuns {
 public:
  enum class News : std::uint8_t { none, first, another };

  /// `algorithm` has run in a call of that kind: whether it is the first that did, or one that had
  /// not before. `algorithm` must live as long as this.
  News note(const CallKind& kind, std::string_view algorithm);

 private:
  std::map<CallKind, std::vector<std::string_view>> seen_;
};

}  // namespace unisono::group
