#include "flight_record.h"

#include <chrono>
#include <cstdlib>

namespace unisono::torch_backend {
namespace {

std::int64_t system_nanoseconds() {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

FlightRecord::Shapes FlightRecord::Shapes::of(at::TensorList tensors) {
  Shapes shapes;
  for (const at::Tensor& t : tensors) {
    shapes.dtypes.push_back(t.scalar_type());
    if (t.layout() != at::kStrided) {  // a sparse tensor's own sizes say little of what is sent
      shapes.dims.push_back(1);
      shapes.sizes.push_back(t.numel());
      continue;
    }
    shapes.dims.push_back(t.dim());
    for (const std::int64_t size : t.sizes()) shapes.sizes.push_back(size);
  }
  return shapes;
}

std::shared_ptr<FlightRecord> FlightRecord::from_environment() {
  std::size_t capacity = 2000;
  if (const char* text = std::getenv("TORCH_FR_BUFFER_SIZE"))
    capacity = static_cast<std::size_t>(std::strtoull(text, nullptr, 10));
  return std::make_shared<FlightRecord>(capacity);
}

std::size_t FlightRecord::enlist(Group group) {
  const std::lock_guard lock(mutex_);
  groups_.push_back(std::move(group));
  return groups_.size() - 1;
}

std::uint64_t FlightRecord::begin(Entry entry) {
  if (capacity_ == 0) return 0;
  entry.created_ns = system_nanoseconds();
  const std::lock_guard lock(mutex_);
  entry.id = next_++;
  const std::uint64_t id = entry.id;
  if (ring_.size() < capacity_)
    ring_.push_back(std::move(entry));
  else
    ring_[id % capacity_] = std::move(entry);
  return id;
}

void FlightRecord::end(std::uint64_t id, bool well) noexcept {
  if (capacity_ == 0) return;
  const std::int64_t now = system_nanoseconds();
  const std::lock_guard lock(mutex_);
  Entry& entry = ring_[id % capacity_];
  if (entry.id != id) return;  // so long ago that its place was given away
  entry.ended_ns = now;
  entry.state = well ? State::completed : State::failed;
}

std::vector<FlightRecord::Entry> FlightRecord::entries() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> all;
  all.reserve(ring_.size());
  const std::uint64_t first = next_ - ring_.size();
  for (std::uint64_t id = first; id < next_; id++) all.push_back(ring_[id % capacity_]);
  return all;
}

std::vector<FlightRecord::Group> FlightRecord::groups() const {
  const std::lock_guard lock(mutex_);
  return groups_;
}

}  // namespace unisono::torch_backend
