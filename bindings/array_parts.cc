/// A list of arrays, one for each rank, as one array.

#include <algorithm>
#include <cstring>
#include <new>

#include "arrays.h"

namespace unisono::python {

void Array::import_parts(nb::handle list, int n, Access access, Elements elements, const char* operation,
                         const char* name) {
  const auto size = static_cast<std::size_t>(n);
  if (nb::len(list) != size)
    refuse(operation, ": ", name, " is a list of ", nb::len(list), " arrays; it needs ", n, ", one for each rank");
  for (std::size_t i = 0; i < size; i++) {
    const std::string label = std::string(name) + "[" + std::to_string(i) + "]";
    parts_.push_back(std::make_unique<Array>());
    Array& part = *parts_.back();
    part.import(list[i], access, elements, operation, label.c_str());
    const Array& first = *parts_.front();
    if (part.type() != first.type())
      refuse(operation, ": ", label, " has elements of type ", part.type(), " and ", name, "[0] of type ", first.type(),
             "; they must be the same");
    if (__builtin_add_overflow(count_, part.count(), &count_))
      refuse(operation, ": the arrays of ", name, " have more than 2^63 - 1 elements");
  }
  const Array& first = *parts_.front();
  held_ = true;
  access_ = access;
  dtype_ = first.dtype_;
  times_ = first.times_;
  type_ = first.type_;
  data_ = first.data_;
  if (access == Access::write) refuse_shared_parts(operation, name);
  if (parts_adjoin()) return;
  stage_.reset(new (std::nothrow) std::byte[bytes()]);
  if (!stage_) refuse(operation, ": there is no memory for a copy of the ", bytes(), " bytes of the arrays of ", name);
  data_ = stage_.get();
  if (access == Access::write) return;  // all of it will be written
  std::byte* to = stage_.get();
  for (const auto& part : parts_) {
    if (part->bytes() != 0) std::memcpy(to, part->data_, part->bytes());
    to += part->bytes();
  }
}

std::vector<std::int64_t> Array::part_counts() const {
  std::vector<std::int64_t> counts;
  for (const auto& part : parts_) counts.push_back(part->count());
  return counts;
}

/// Whether each part begins where the one before it ends.
bool Array::parts_adjoin() const noexcept {
  const auto* at = static_cast<const std::byte*>(data_);
  for (const auto& part : parts_) {
    if (part->staged() || (part->count() != 0 && part->data_ != at)) return false;
    at += part->bytes();
  }
  return true;
}

/// A list such as [x] * n, of which only the last part would be there in the end.
void Array::refuse_shared_parts(const char* operation, const char* name) const {
  std::vector<std::pair<Extent, std::size_t>> extents;
  for (std::size_t i = 0; i < parts_.size(); i++)
    if (!parts_[i]->staged() && parts_[i]->count() != 0) extents.emplace_back(parts_[i]->extent(), i);
  std::ranges::sort(extents, {}, [](const auto& e) { return e.first.begin; });
  for (std::size_t i = 1; i < extents.size(); i++)
    if (extents[i - 1].first.overlaps(extents[i].first))
      refuse(operation, ": ", name, "[", extents[i - 1].second, "] and ", name, "[", extents[i].second,
             "] are the same memory, and each is to hold another rank's part; give arrays that are apart");
}

}  // namespace unisono::python
