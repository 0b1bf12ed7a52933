#pragma once
/// What a thread waits in, for those who look for cycles of waits.

#include <cstdint>
#include <string>
#include <vector>

#include "engine/wait_cycles.h"
#include "group/group_impl.h"

namespace unisono::detail {

/// A collective that is under way, as far as others matter to it.
struct CollectiveAhead {
  Collective collective = Collective::barrier;
  std::uint64_t sequence = 0;  ///< 0: none has begun
  std::int64_t count = 0;
  int root = 0;
  bool uneven = false;
};

/// Thread-safety: the thread that waits.
class GroupImpl::BlockedCall : public engine::Blocked {
 public:
  BlockedCall(GroupImpl& group, bool lasts) noexcept : group_(group), lasts_(lasts) {}
  std::uint64_t group() const override { return group_.parts_.id; }
  int rank() const override { return group_.rank(); }
  bool lasts() const override { return lasts_; }

 protected:
  std::string in_words(const std::string& call) const;
  GroupImpl& group_;

 private:
  bool lasts_;
};

/// For a message.
class GroupImpl::BlockedInMessage final : public BlockedCall {
 public:
  BlockedInMessage(GroupImpl& group, const std::shared_ptr<engine::Completion>& completion,
                   const Awaited& what) noexcept
      : BlockedCall(group, what.lasts), completion_(completion), what_(what) {}
  std::uint64_t sequence() const override { return 0; }
  std::vector<int> peers() override;
  std::string describe() const override;
  void end(const Status& status) override;

 private:
  const std::shared_ptr<engine::Completion>& completion_;
  const Awaited& what_;
};

/// For a collective that the caller runs itself, with the baton in its hand.
class GroupImpl::BlockedInCollective : public BlockedCall {
 public:
  BlockedInCollective(GroupImpl& group, const Call& call, const std::uint64_t& sequence)
      : BlockedCall(group, group.lasts(call.options)), call_(call), sequence_(sequence) {}
  std::uint64_t sequence() const override { return sequence_; }
  std::vector<int> peers() override;
  std::string describe() const override;
  void end(const Status& status) override { group_.fail(status); }

 private:
  const Call& call_;
  const std::uint64_t& sequence_;
};

/// For one that is queued: the one in front of all is what holds it up.
class GroupImpl::BlockedInQueue final : public BlockedCall {
 public:
  BlockedInQueue(GroupImpl& group, bool lasts) noexcept : BlockedCall(group, lasts) {}
  std::uint64_t sequence() const override { return ahead_.sequence; }
  std::vector<int> peers() override;
  std::string describe() const override;
  void end(const Status& status) override { group_.fail(status); }

 private:
  CollectiveAhead ahead_;
};

}  // namespace unisono::detail
