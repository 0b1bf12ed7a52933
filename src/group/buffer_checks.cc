#include "group/buffer_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "group/group_impl.h"

namespace unisono::group {

namespace {

/// Both must exist, and overlap: one memory around them.
Area around(const Area& a, const Area& b) {
  const std::byte* const begin = std::min(a.begin, b.begin);
  const std::byte* const end = std::max(a.begin + a.bytes, b.begin + b.bytes);
  return {begin, static_cast<std::size_t>(end - begin), "buffer (input and output in one)", true};
}

/// The elements that differ: the first row of them, and how many there are.
struct Difference {
  std::size_t first = 0, last = 0, count = 0;
};

Difference difference(const std::byte* a, const std::byte* b, std::size_t bytes, std::size_t element) {
  Difference found;
  for (std::size_t at = 0; at < bytes; at += element) {
    if (std::memcmp(a + at, b + at, std::min(element, bytes - at)) == 0) continue;
    const std::size_t i = at / element;
    if (found.count == 0) found.first = found.last = i;
    if (i == found.last + 1) found.last = i;
    found.count++;
  }
  return found;
}

constexpr const char* kMeanwhile = "while it was in flight";
constexpr const char* kAfterwards = "while it was in flight (it had ended, but wait() had not yet said so)";

}  // namespace

CheckedBuffers::CheckedBuffers(std::shared_ptr<BufferChecks> checks, Subject subject, std::span<const Area> areas)
    : checks_(std::move(checks)), subject_(std::move(subject)) {
  for (const Area& area : areas)
    if (area.bytes > 0) areas_.push_back(area);
}

CheckedBuffers::~CheckedBuffers() { checks_->leave(*this); }

void CheckedBuffers::copy() {
  if (areas_.size() == 2 && areas_[0].overlaps(areas_[1])) {
    const Area& written = areas_[0].written ? areas_[0] : areas_[1];
    regions_.push_back({around(areas_[0], areas_[1]), written, {}, nullptr});
  } else {
    for (const Area& area : areas_) regions_.push_back({area, area.written ? area : Area{}, {}, nullptr});
  }
  for (Region& region : regions_) {
    region.work = checks_->copy(region.all);
    if (region.written.bytes == 0) continue;
    region.expected = std::make_unique_for_overwrite<std::byte[]>(region.all.bytes);
    std::memcpy(region.expected.get(), region.work.data(), region.all.bytes);
  }
}

std::byte* CheckedBuffers::copy_of(const void* data) const noexcept {
  const auto* const at = static_cast<const std::byte*>(data);
  for (const Region& region : regions_)
    if (region.all.begin <= at && at < region.all.begin + region.all.bytes)
      return region.work.data() + (at - region.all.begin);
  return const_cast<std::byte*>(at);
}

Status CheckedBuffers::ended(Status status, const engine::Arrival& arrival) {
  const std::lock_guard lock(mutex_);
  ended_ = true;
  outcome_ = std::move(status);
  // A message that was too long has filled the memory, though its status is an error.
  const bool stores = outcome_.ok() || arrival.source >= 0;
  if (outcome_.ok()) outcome_ = compare(kMeanwhile);
  for (Region& region : regions_) {
    if (stores && region.written.bytes > 0) {
      const auto at = region.written.begin - region.all.begin;
      const std::byte* const result = region.work.data() + at;
      std::memcpy(const_cast<std::byte*>(region.written.begin), result, region.written.bytes);
      std::memcpy(region.expected.get() + at, result, region.written.bytes);
    }
    if (region.expected) region.work = {};
  }
  if (seen_ || !outcome_.ok()) forget();
  return outcome_;
}

Status CheckedBuffers::seen() {
  const std::lock_guard lock(mutex_);
  if (!ended_ || seen_) return outcome_;
  seen_ = true;
  if (outcome_.ok()) outcome_ = compare(kAfterwards);
  forget();
  return outcome_;
}

void CheckedBuffers::disown() {
  const std::lock_guard lock(mutex_);
  seen_ = true;
  if (ended_) forget();
}

void CheckedBuffers::forget() {
  regions_.clear();
  checks_->leave(*this);
}

Status CheckedBuffers::outcome() const {
  const std::lock_guard lock(mutex_);
  return outcome_;
}

Status CheckedBuffers::compare(const char* when) const {
  for (const Region& region : regions_)
    if (std::memcmp(region.all.begin, region.right(), region.all.bytes) != 0) {
      Status found = report(region, when);
      checks_->log_.error(found.message());  // where nobody waits for it, too
      return found;
    }
  return {};
}

Status CheckedBuffers::report(const Region& region, const char* when) const {
  const std::size_t element = subject_.element;
  const Difference d = difference(region.all.begin, region.right(), region.all.bytes, element);
  const std::string_view unit = element == 1 ? "byte" : "element";
  const std::string which =
      d.first == d.last ? fmt::format("{} {}", unit, d.first) : fmt::format("{}s {} to {}", unit, d.first, d.last);
  return Status::invalid(fmt::format(
      "{} of the {} changed {}: {}, on {}; {} of {} {}s differ. It ran on a copy from the time of the call "
      "(UNISONO_DEBUG=buffers), without which any rank's result could be wrong. {}, or give the operation a copy",
      which, region.all.name, when, subject_.operation, subject_.rank, d.count, region.all.bytes / element, unit,
      subject_.blocking ? "Another thread wrote there: let none do that before the call has returned"
                        : "wait() for it before writing to its memory"));
}

std::shared_ptr<CheckedBuffers> BufferChecks::begin(Subject subject, std::span<const Area> areas) {
  auto operation = std::make_shared<CheckedBuffers>(shared_from_this(), std::move(subject), areas);
  enter(*operation);
  operation->copy();
  return operation;
}

void BufferChecks::enter(CheckedBuffers& operation) {
  const std::lock_guard lock(mutex_);
  for (const CheckedBuffers* other : operations_)
    for (const Area& theirs : other->areas_)
      for (const Area& ours : operation.areas_)
        if ((ours.written || theirs.written) && ours.overlaps(theirs))
          throw InvalidArgument(fmt::format(
              "{} was refused on {}: its {} ({} bytes at {}) overlaps the {} ({} bytes at {}) of {}, which is in "
              "flight, and one of the two is written to. wait() for that one first, or give each memory of its own. "
              "Nothing was sent (UNISONO_DEBUG=buffers)",
              operation.subject_.operation, operation.subject_.rank, ours.name, ours.bytes,
              static_cast<const void*>(ours.begin), theirs.name, theirs.bytes, static_cast<const void*>(theirs.begin),
              other->subject_.operation));
  operations_.push_back(&operation);
}

void BufferChecks::leave(const CheckedBuffers& operation) noexcept {
  if (!process_.here()) return;  // a forked child: another thread may have held the lock
  const std::lock_guard lock(mutex_);
  std::erase(operations_, &operation);
}

CheckedBuffers::Copy BufferChecks::copy(const Area& area) const {
  CheckedBuffers::Copy made;
  if (segment_ != nullptr && segment_->find(area.begin, area.bytes).offset != 0)
    made.shared = value_or_throw(pool_->allocate(area.bytes));
  else
    made.own = std::make_unique_for_overwrite<std::byte[]>(area.bytes);
  std::memcpy(made.data(), area.begin, area.bytes);
  return made;
}

}  // namespace unisono::group

namespace unisono::detail {

/// The call's memory is its copy's from here on.
std::shared_ptr<group::CheckedBuffers> GroupImpl::check_buffers(Call& call, bool blocking) {
  const Areas areas = areas_of(call, rank(), size(), parts_.name);
  const auto made = [](const Area& area, const char* name, bool written) {
    return group::Area{area.begin, static_cast<std::size_t>(area.bytes), name, written};
  };
  const std::array both{made(areas.input, "input", false), made(areas.output, "output", true)};
  auto checked =
      checks_->begin({describe_call(call, called_ + 1, {}), names_of({rank()}), size_of(call.dtype), blocking}, both);
  called_++;
  call.input = checked->copy_of(call.input);
  call.output = checked->copy_of(call.output);
  return checked;
}

void GroupImpl::run_checked(Call call) {
  const auto checked = check_buffers(call, true);
  try {
    run_valid(call);
  } catch (const InvalidArgument&) {
    if (!parts_.failure->failed()) called_--;  // refused, and has no number
    throw;
  }
  throw_status(checked->ended({}, {}));
}

std::shared_ptr<engine::Completion> GroupImpl::start_checked(Call call) {
  auto checked = check_buffers(call, false);
  std::shared_ptr<engine::Completion> completion;
  try {
    completion = start_valid(call);
  } catch (const InvalidArgument&) {
    called_--;
    throw;
  }
  completion->check(std::move(checked));
  return completion;
}

std::shared_ptr<group::CheckedBuffers> GroupImpl::check_message(std::span<const std::byte> data, const Awaited& what,
                                                                bool written) const {
  const group::Area area{data.data(), data.size(), "data", written};
  return checks_->begin({describe(what), names_of({rank()}), 1, false}, std::span(&area, 1));
}

std::shared_ptr<engine::Completion> GroupImpl::checked(std::shared_ptr<engine::Completion> completion,
                                                       std::shared_ptr<group::CheckedBuffers> by) {
  if (completion == nullptr) {  // all of it was sent at once
    completion = std::make_shared<engine::Completion>();
    for (const auto& callback : completion->complete({})) callback();
  }
  completion->check(std::move(by));
  return completion;
}

}  // namespace unisono::detail
