#pragma once
/// One call on its way from Python to the library: its arguments, checked, and the memory that it holds while it runs.

#include <memory>
#include <optional>
#include <vector>

#include "arrays.h"
#include "group.h"

namespace unisono::python {

/// Filled by a method of the group (collectives.cc), then run or started. Arguments are named in errors as Python names
/// them.
struct Operation {
  Operation(const PyGroup& group_, const char* name_, nb::handle timeout, nb::handle algorithm_);

  /// What the collective, which is set before arrays are taken, can be given.
  Elements elements() const noexcept { return reduces(call.collective) ? Elements::numbers : Elements::any; }
  /// x is an input only; out an output only; in_place both in x.
  void read(nb::handle object) { x.import(object, Access::read, elements(), name, "x"); }
  void write(nb::handle object) { out.import(object, Access::write, elements(), name, "out"); }
  void in_place(nb::handle object) { x.import(object, Access::write, elements(), name, "x"); }

  /// The same for what has a part for each rank: one array, or a list of arrays, one for each rank.
  void read_parts(nb::handle object) { take_parts(x, object, Access::read, "x"); }
  void write_parts(nb::handle object) { take_parts(out, object, Access::write, "out"); }

  /// Take `values` as n counts that are not negative; their sum, checked.
  std::int64_t take_counts(nb::handle values, const char* argument, std::vector<std::int64_t>& into);
  /// Take the parts' sizes where they differ: from `values`, or from `parts` where that is a list
  /// of arrays of different sizes. Their sum, or nothing where all are the same. Throws when both
  /// say it and differ.
  std::optional<std::int64_t> take_uneven(nb::handle values, const Array& parts, const char* argument);
  /// Throws unless `array` has `expected` elements, saying where the number comes from.
  void require_count(const Array& array, const char* argument, std::int64_t expected, const std::string& why) const;
  /// Throws unless x and out have one type of elements.
  void require_same_dtype() const;
  /// n * count, checked.
  std::int64_t times_ranks(std::int64_t count) const;

  /// Fill the call's pointers and dtype from x and out: in place where there is no out.
  void bind_buffers();
  /// Of what is only moved: makes the call's counts those of bytes.
  void count_parts(std::int64_t times);
  /// Bring stages back to where the caller looks, once it is done and went well.
  void finish() const noexcept;
  /// Block until it is done, GIL released; then finish(). Throws what went wrong, or what a signal
  /// handler raised.
  void run();
  /// Throws when memory would have to be copied back after the operation: there is no place to do that.
  void require_asynchronous(bool has_result) const;

  void take_parts(Array& array, nb::handle object, Access access, const char* argument);

  const Group& group;
  const char* name;
  int ranks;
  Call call;
  Array x, out;
  std::vector<std::int64_t> counts, output_counts;
  nb::object algorithm;  // call.options views its text
};

/// An empty array of `shape` and x's kind: a torch tensor for a tensor, else a NumPy array.
nb::object allocate_like(nb::handle x, const Array& array, const nb::object& shape, const char* operation);
/// x.shape, or (count,) when it has none.
nb::tuple shape_of(nb::handle x, const Array& array);

}  // namespace unisono::python
