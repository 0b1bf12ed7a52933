#pragma once
/// Who is in a group, and who has left it.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace unisono::engine {

/// Outlives the group here until all members have left it: what comes late is known by it. Under
/// the messenger's lock.
struct Membership {
  struct Departure {
    bool said = false;  ///< the rank has said that it leaves
    bool left = false;  ///< and all that it sent before is here
    /// Nothing of the rank comes any more: it has said so itself, behind all that it has sent, or has
    /// no link to here. What another rank passes on may overtake that.
    bool over = false;
    std::uint64_t collectives = 0;  ///< that it has taken part in
    /// Departures that are still to come from an earlier group of the same members and name.
    int owed = 0;
  };

  int rank = 0;              ///< this process's
  std::vector<int> members;  ///< by rank, the peer's number; -1: this process
  std::vector<Departure> departures;

  Membership() = default;
  Membership(int rank_, std::vector<int> members_)
      : rank(rank_), members(std::move(members_)), departures(members.size()) {}
  int size() const noexcept { return static_cast<int>(members.size()); }
  /// -1: the peer is no member.
  int rank_of(int peer) const noexcept {
    const auto it = std::find(members.begin(), members.end(), peer);
    return it == members.end() ? -1 : static_cast<int>(it - members.begin());
  }
};

}  // namespace unisono::engine
