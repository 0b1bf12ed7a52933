#include "group/adopter.h"

#include <fmt/format.h>
#include <unistd.h>

#include <exception>

#include "base/device_memory.h"
#include "base/malloc_mapping.h"
#include "base/map_query.h"
#include "base/within.h"
#include "group/registration.h"

namespace unisono::detail {

namespace {

using Presence = transport::RegisteredMemory::Presence;

/// A smaller request seldom has a mapping of its own.
constexpr std::size_t kLeast = 128 << 10;
/// Bytes of collectives that pay for registering, whatever the size.
constexpr std::uint64_t kWorth = 128ULL << 20;
/// So many times as often must come back what was refused, or freed soon, last time.
constexpr std::uint64_t kPatience = 8;
/// Uses after which registering was worth while, though it has been freed.
constexpr std::uint64_t kPaid = 16;
/// With one call in so many it is asked what has been freed.
constexpr std::uint64_t kLookEvery = 16;
/// Then all are forgotten: few programs have so many that come back.
constexpr std::size_t kMostCandidates = 256;

std::uint64_t machine_memory() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

/// Other threads may write to it: nobody could copy it now.
Adopter::~Adopter() {
  drop_freed();
  for (auto& [key, shared] : adopted_) shared.registration->keep_shared();
}

void Adopter::begin(const ContextImpl& context, const void* data, std::size_t bytes) noexcept {
  if (!enabled_ || bytes < kLeast) return;
  const std::lock_guard lock(mutex_);
  if (++begun_ % kLookEvery == 0) drop_freed();
  const Key key{static_cast<const std::byte*>(data), bytes};
  if (const auto found = adopted_.find(key); found != adopted_.end()) {
    // A copy was made for a child, and would be for the next one. (At the fork it could not become private: other threads may write.)
    found->second.uses++;
    if (found->second.registration->memory()->copied_for_child()) forks_ = true;
    if (forks_) make_private(found);
    return;
  }
  if (forks_) return;
  try {
    if (!try_again(key)) return;
    drop_freed();
    const std::string refusal = adopt(context, key);
    context.log.info(fmt::format("collectives came back to {} bytes at {}: {}", bytes, fmt::ptr(data),
                                 refusal.empty()
                                     ? "they are shared with the ranks of this host now (UNISONO_SHARE_MEMORY=0 "
                                       "keeps memory private)"
                                     : "they stay private for now: " + refusal));
  } catch (const std::exception&) {  // no memory for a note: then it stays as it is
  }
}

bool Adopter::try_again(const Key& key) {
  if (candidates_.size() >= kMostCandidates && !candidates_.contains(key)) candidates_.clear();
  Candidate& c = candidates_[key];
  c.uses++;
  if (c.uses < c.needed || c.uses * key.second < kWorth) return false;
  c.uses = 0;
  c.needed *= kPatience;
  return true;
}

std::string Adopter::adopt(const ContextImpl& context, const Key& key) {
  const auto [data, bytes] = key;
  if (context.segment->find(data, bytes).offset != 0) return "they are shared already";
  const std::uint64_t mapped = mapped_by_malloc(data);
  // All of it, or nearly: a little that malloc, or a vector, has taken more than was asked for may lie behind.
  if (mapped < bytes || mapped - bytes > mapped / 16 + 8192) return "that is not all of a mapping of malloc's";
  if (!MapQuery::open()) return "this system cannot tell quickly what has been freed (Linux 6.11 can)";
  if (std::string device = device_with_memory(); !device.empty()) return device;
  const auto ranks = static_cast<std::uint64_t>(context.ranks_here());
  if (bytes_ + bytes > machine_memory() / 8 / ranks)
    return "an eighth of the machine's memory is shared by itself already";
  // The contents stay what they are: that the caller may only read them does not matter.
  auto made = RegistrationImpl::create(context, const_cast<std::byte*>(data), bytes, transport::Freed::at_any_time);
  if (!made) return made.status().message();
  if ((*made)->memory() == nullptr) return "there is no whole page in it";
  adopted_.emplace(key, Shared{std::move(made).value()});
  bytes_ += bytes;
  return {};
}

void Adopter::make_private(Adopted::iterator which) noexcept {
  const auto& registration = which->second.registration;
  if (registration.use_count() > 1) return;  // the program has registered a part
  try {
    // A device that has come since may know the pages.
    if (!device_with_memory().empty()) registration->keep_shared();
  } catch (const std::exception&) {
    registration->keep_shared();
  }
  bytes_ -= which->first.second;
  adopted_.erase(which);
}

/// Of what has been freed in part somebody may use the rest.
void Adopter::drop_freed() noexcept {
  for (auto it = adopted_.begin(); it != adopted_.end();) {
    const Presence presence = it->second.registration->memory()->presence();
    if (presence == Presence::all) {
      ++it;
      continue;
    }
    if (presence == Presence::some) it->second.registration->keep_shared();
    if (it->second.uses >= kPaid) candidates_.erase(it->first);  // what comes to its place may be as good
    bytes_ -= it->first.second;
    it = adopted_.erase(it);
  }
}

void Adopter::withdraw(const void* data, std::size_t bytes) noexcept {
  const std::lock_guard lock(mutex_);
  for (auto it = adopted_.begin(); it != adopted_.end();) {
    const auto which = it++;
    const auto [begin, size] = which->first;
    if (within(begin, size, static_cast<const std::byte*>(data), bytes)) make_private(which);
  }
}

std::shared_ptr<RegistrationImpl> Adopter::hand_over(std::byte* data, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  drop_freed();
  for (auto it = adopted_.begin(); it != adopted_.end();) {
    const auto which = it++;
    const auto [begin, size] = which->first;
    if (begin == data && size == bytes) {
      bytes_ -= size;
      return std::move(adopted_.extract(which).mapped().registration);
    }
    if (within(data, bytes, begin, size))
      return std::make_shared<RegistrationImpl>(data, bytes, which->second.registration);
    if (within(begin, size, data, bytes)) make_private(which);
  }
  return nullptr;
}

}  // namespace unisono::detail
