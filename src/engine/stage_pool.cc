#include "engine/stage_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "engine/signature.h"

namespace unisono::engine {

void StagePool::join() noexcept {
  const std::lock_guard lock(mutex_);
  groups_++;
}

/// Seizes an idle stage for as long as it looks: its holder, which may begin an operation at any time, then comes to lend() and waits for the lock.
StagePool::Look StagePool::look(Stage& stage) noexcept {
  StageHolder* const holder = stage.holder;
  if (holder == nullptr) return Look::taken;
  StageHolder* expected = holder;
  if (!stage.idle_for.compare_exchange_strong(expected, nullptr, std::memory_order_acquire, std::memory_order_relaxed))
    return Look::busy;
  if (holder->read_by_all(stage)) return Look::taken;
  const bool begun = holder->begun_by_all(stage);
  stage.idle_for.store(holder, std::memory_order_release);
  return begun ? Look::soon : Look::busy;
}

/// What look() has taken is its holder's again.
void StagePool::let_be(Stage& stage) noexcept {
  if (stage.holder != nullptr) stage.idle_for.store(stage.holder, std::memory_order_release);
}

Result<std::shared_ptr<Stage>> StagePool::lend(StageHolder& holder, const std::shared_ptr<Stage>& own,
                                               std::uint64_t bytes, std::uint64_t operation, bool patient) {
  const std::lock_guard lock(mutex_);
  if (own != nullptr && own->enter(&holder, operation)) return own;  // it was only being looked at
  bool soon = false;
  std::optional<std::size_t> small;
  for (std::size_t i = 0; i < stages_.size(); i++) {
    const Look found = look(*stages_[i]);
    soon |= found == Look::soon;
    if (found != Look::taken) continue;
    if (stages_[i]->bytes >= bytes) return hand_over(i, holder, operation);
    let_be(*stages_[i]);
    small = i;
  }
  if (!small && soon && patient) return std::shared_ptr<Stage>();
  if (small && look(*stages_[*small]) == Look::taken) give_back(*small);  // a larger one takes its place
  auto stage = std::make_shared<Stage>();
  stage->bytes = std::max(bytes, least_);
  auto offset = segment_.allocate(stage->bytes);
  if (!offset)
    return offset.status().with_context(
        fmt::format("shared memory for a stage of {}", describe_bytes(static_cast<std::int64_t>(stage->bytes))));
  stage->offset = *offset;
  stages_.push_back(std::move(stage));
  return hand_over(stages_.size() - 1, holder, operation);
}

std::shared_ptr<Stage> StagePool::hand_over(std::size_t index, StageHolder& holder, std::uint64_t operation) noexcept {
  std::rotate(stages_.begin() + static_cast<std::ptrdiff_t>(index),
              stages_.begin() + static_cast<std::ptrdiff_t>(index) + 1, stages_.end());
  Stage& stage = *stages_.back();
  stage.holder = &holder;
  stage.begin(operation);
  return stages_.back();
}

bool StagePool::leave(StageHolder& holder, const std::shared_ptr<Stage>& own) noexcept {
  const std::lock_guard lock(mutex_);
  if (own != nullptr && own->holder == &holder) {
    const bool idle = own->idle_for.exchange(nullptr, std::memory_order_acquire) != nullptr;
    if (!holder.read_by_all(*own)) {
      if (idle) let_be(*own);
      return false;
    }
    own->holder = nullptr;
  }
  groups_--;
  trim();
  return true;
}

void StagePool::abandon(StageHolder& holder, const std::shared_ptr<Stage>& own) noexcept {
  const std::lock_guard lock(mutex_);
  if (own != nullptr && own->holder == &holder) std::erase(stages_, own);
  groups_--;
  trim();
}

void StagePool::give_back(std::size_t index) noexcept {
  segment_.release(stages_[index]->offset, stages_[index]->bytes);
  stages_.erase(stages_.begin() + static_cast<std::ptrdiff_t>(index));
}

/// What nobody holds goes back; the last one not before the last group.
void StagePool::trim() noexcept {
  for (std::size_t i = 0; i < stages_.size();) {
    if (stages_[i]->holder == nullptr && (groups_ == 0 || stages_.size() > 1))
      give_back(i);
    else
      i++;
  }
}

}  // namespace unisono::engine
