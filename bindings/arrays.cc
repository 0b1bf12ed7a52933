#include "arrays.h"

#include <cstring>
#include <new>

namespace unisono::python {
namespace {

constexpr int kMaxDims = 64;

const char* kWhatToGive =
    "give an array that has its own memory: a NumPy array, a torch CPU tensor, or anything with the buffer protocol or "
    "DLPack";

}  // namespace

void Array::import(nb::handle object, Access access, Elements elements, const char* operation, const char* name) {
  const bool taken = call_interpreter([&] {
    return take_buffer(object, elements, operation, name) || take_dlpack(object, access, elements, operation, name);
  });
  if (!taken)
    refuse(operation, ": ", name, " is ", object.is_none() ? "None" : "a " + type_of(object), "; ", kWhatToGive);
  held_ = true;
  access_ = access;
  if (access == Access::write && without_flags_)
    refuse(operation, ": ", name, " (a ", type_of(object),
           ") comes by DLPack from before version 1.0, which does not say whether it may be written, and the result is "
           "written to it; give a NumPy array or a torch tensor");
  if (access == Access::write && readonly_)
    refuse(operation, ": ", name,
           " is read-only, and the result is written to it; give a writable array (x.copy(), bytearray)");
  if (layout_.ndim > kMaxDims)
    refuse(operation, ": ", name, " has ", layout_.ndim, " dimensions; at most ", kMaxDims, " are supported");

  const std::int64_t items = count_of(layout_);
  if (items < 0) refuse(operation, ": ", name, " has more than 2^63 - 1 bytes");
  count_ = elements == Elements::bytes ? items * layout_.itemsize : items;
  data_ = layout_.data;
  // A complex number is as aligned as its parts; what is only moved need not be.
  const std::size_t alignment = is_complex(dtype_) ? size_of(dtype_) / 2 : size_of(dtype_);
  const bool aligned = reinterpret_cast<std::uintptr_t>(data_) % alignment == 0;
  if (items == 0 || (aligned && is_contiguous(layout_))) return;

  if (access == Access::write && may_alias_itself(layout_))
    refuse(operation, ": ", name,
           " has several indices for one element (a broadcast view), and the result is written to it; give a copy");
  stage_.reset(new (std::nothrow) std::byte[static_cast<std::size_t>(items * layout_.itemsize)]);
  if (!stage_)
    refuse(operation, ": ", name, " is not contiguous, and there is no memory for a copy of its ",
           items * layout_.itemsize, " bytes; give a contiguous array");
  // What is written is packed as well: an operation may read it first, or leave a part of it alone.
  pack(layout_, stage_.get());
  data_ = stage_.get();
}

void Array::copy_back() const noexcept {
  if (!stage_ || !written()) return;
  if (!is_list()) return unpack(layout_, stage_.get());
  const std::byte* from = stage_.get();
  for (const auto& part : parts_) {
    if (part->bytes() != 0) std::memcpy(part->data_, from, part->bytes());
    part->copy_back();
    from += part->bytes();
  }
}

void Array::release() noexcept {
  if (view_.obj != nullptr) PyBuffer_Release(&view_);
  if (drop_ != nullptr) drop_(tensor_);
  drop_ = nullptr;
  parts_.clear();
  stage_.reset();
}

}  // namespace unisono::python
