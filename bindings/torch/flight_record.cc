#include "flight_record.h"

#include <chrono>
#include <cstdlib>

namespace unisono::torch_backend {

std::int64_t FlightRecord::system_nanoseconds() noexcept {
  return std::chrono::nanoseconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

void FlightRecord::Shapes::set(at::TensorList tensors) {
  dims.clear(), sizes.clear(), dtypes.clear();
  for (const at::Tensor& t : tensors) {
    dtypes.push_back(t.scalar_type());
    if (t.layout() != at::kStrided) {  // a sparse tensor's own sizes say little of what is sent
      dims.push_back(1);
      sizes.push_back(t.numel());
      continue;
    }
    dims.push_back(t.dim());
    for (const std::int64_t size : t.sizes()) sizes.push_back(size);
  }
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

FlightRecord::Entry& FlightRecord::next_entry(std::int64_t now) {
  Entry& entry = ring_.size() < capacity_ ? ring_.emplace_back() : ring_[next_ % capacity_];
  entry.id = next_++;
  entry.created_ns = now;
  entry.ended_ns = 0;
  entry.state = State::started;
  return entry;
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
