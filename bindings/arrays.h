#pragma once
/// Whatever a caller gave as an array, as memory: the buffer protocol (NumPy, memoryview, array.array, bytearray) or
/// DLPack (torch CPU tensors and others). Contiguous memory is used where it is, without a copy; other layouts go
/// through a contiguous stage that is copied back. Thread-safety: GIL held for everything but reading the fields.

#include <cstdint>
#include <memory>
#include <vector>

#include "core.h"
#include "element_types.h"
#include "strided.h"

namespace unisono::python {

/// What happens to the memory; `write` includes reading.
enum class Access { read, write };
/// `numbers`: what can be reduced. `any`: also what can only be moved, as bytes; counts are in elements all the same.
/// `bytes`: any plain memory, dtype u8, counted in bytes.
enum class Elements { numbers, any, bytes };

/// The memory of one argument, held (buffer export or DLPack tensor) until it is released or dies. Not movable:
/// exporters may point into the structure.
class Array {
 public:
  Array() = default;
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { release(); }

  /// Take `object`. Throws InvalidArgument that names `operation` and the argument `name` and says why it cannot be
  /// used.
  void import(nb::handle object, Access access, Elements elements, const char* operation, const char* name);
  /// Take a list of n arrays of one type as one array: their elements, one part after the other.
  /// Parts that lie side by side in memory are used in place; others go through a stage.
  void import_parts(nb::handle list, int n, Access access, Elements elements, const char* operation, const char* name);
  /// After the operation: bring a stage's contents back to where the caller looks. Nothing for contiguous or read
  /// arrays.
  void copy_back() const noexcept;
  void release() noexcept;

  bool held() const noexcept { return held_; }  ///< something was imported
  void* data() const noexcept { return data_; }
  std::int64_t count() const noexcept { return count_; }  ///< elements; bytes for Elements::bytes
  DType dtype() const noexcept { return dtype_; }
  /// Elements of dtype() that one of the array's makes: 1, or its bytes where it can only be moved.
  std::int64_t times() const noexcept { return times_; }
  /// The type of elements, for people; two arrays have one type where this is the same.
  std::string type() const { return type_.empty() ? std::string(name_of(dtype_)) : type_; }
  bool staged() const noexcept { return stage_ != nullptr; }
  bool written() const noexcept { return access_ == Access::write; }
  /// The memory of the caller's own array, stage or not. Not of a list.
  Extent extent() const noexcept { return extent_of(layout_); }
  bool is_list() const noexcept { return !parts_.empty(); }
  /// Elements of each part of a list.
  std::vector<std::int64_t> part_counts() const;

 private:
  bool take_buffer(nb::handle object, Elements elements, const char* operation, const char* name);
  bool take_dlpack(nb::handle given, Access access, Elements elements, const char* operation, const char* name);
  std::size_t bytes() const noexcept { return static_cast<std::size_t>(count_ * times_) * size_of(dtype_); }
  bool parts_adjoin() const noexcept;
  void refuse_shared_parts(const char* operation, const char* name) const;
  void set_elements(nb::handle object, std::optional<ElementType> known, std::int64_t itemsize, const char* format,
                    Elements elements, const char* operation, const char* name);

  void* data_ = nullptr;
  std::int64_t count_ = 0;
  DType dtype_ = DType::u8;
  std::int64_t times_ = 1;
  std::string type_;  // where dtype_ does not say it
  bool held_ = false;
  Access access_ = Access::read;
  bool readonly_ = false;
  bool without_flags_ = false;  // DLPack before 1.0, which cannot say "read-only"
  Layout layout_;
  std::unique_ptr<std::byte[]> stage_;
  std::vector<std::unique_ptr<Array>> parts_;  // of a list
  Py_buffer view_{};                           // held when view_.obj is not null
  void (*drop_)(void*) noexcept = nullptr;     // the DLPack tensor's deleter, when one is held
  void* tensor_ = nullptr;
};

}  // namespace unisono::python
