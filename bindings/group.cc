#include "group.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include "docs.h"
#include "interrupt.h"
#include "operation.h"
#include "registration.h"

namespace unisono::python {

GroupState::GroupState(Group g) : group(std::move(g)) {}

GroupState::~GroupState() {
  const GilReleased release;
  group = Group();  // finishes what is in flight
  for (auto& [work, operation] : unwatched) {
    try {
      work.wait();
    } catch (const std::exception&) {  // nobody is left to hear of it; its memory may go now
    }
    const GilHeld acquire;
    operation.reset();
  }
  const GilHeld acquire;
  release_registrations();
}

void GroupState::release_registrations() noexcept {
  for (const auto& registration : registrations) registration->release();
  registrations.clear();
}

void GroupState::sweep() noexcept {
  std::erase_if(unwatched, [](const auto& entry) {
    if (!entry.first.done()) return false;
    if (!entry.first.error()) entry.second->finish();
    return true;
  });
}

std::shared_ptr<PyRegistration> PyGroup::register_array(nb::handle array) {
  const Group& group = state_->group;
  if (destroyed()) refuse("register: group \"", group.name(), "\" was destroyed");
  auto made = std::make_shared<PyRegistration>(group, array);
  std::erase_if(state_->registrations, [](const auto& r) { return r->released(); });
  state_->registrations.push_back(made);
  return made;
}

bool PyGroup::shares(nb::handle array) const {
  const Group& group = state_->group;
  Array memory;
  memory.import(array, Access::read, Elements::bytes, "shares", "array");
  return !memory.staged() && group.shares(memory.data(), static_cast<std::size_t>(memory.count()));
}

void PyGroup::destroy() {
  if (state_->destroyed || !state_->group.made_here()) return;
  state_->destroyed = true;
  bool left = false;
  {
    const GilReleased released;
    left = state_->group.destroy(&interrupted);
  }
  if (!left) return;  // the call that was interrupted may still use what is registered
  state_->sweep();
  state_->release_registrations();
  check_raised("what was in flight on the group was aborted, on all ranks");
}

namespace {

PyGroup subgroup(const PyGroup& self, const std::vector<int>& ranks, nb::handle timeout) {
  Options options;
  options.timeout = parse_timeout(timeout, "subgroup");
  return PyGroup(run_interruptibly([group = self.handle(), ranks, options] { return group.subgroup(ranks, options); }));
}

std::int64_t integer_of_64_bits(nb::handle value, const char* argument) {
  std::int64_t result = 0;
  if (!PyIndex_Check(value.ptr())) refuse("split: ", argument, " is a ", type_of(value), "; give an integer");
  if (!nb::try_cast(nb::steal(PyNumber_Index(value.ptr())), result)) {
    PyErr_Clear();
    refuse("split: ", argument, " is ", text_of(value), "; it must be from -2^63 to 2^63 - 1");
  }
  return result;
}

std::optional<PyGroup> split(const PyGroup& self, nb::handle given_colour, nb::handle given_key, nb::handle timeout) {
  Options options;
  options.timeout = parse_timeout(timeout, "split");
  const std::int64_t colour = integer_of_64_bits(given_colour, "colour"), key = integer_of_64_bits(given_key, "key");
  Group group =
      run_interruptibly([group = self.handle(), colour, key, options] { return group.split(colour, key, options); });
  if (!group) return std::nullopt;
  return PyGroup(std::move(group));
}

PyGroup split_by_host(const PyGroup& self, nb::handle given_key, nb::handle timeout) {
  Options options;
  options.timeout = parse_timeout(timeout, "split_by_host");
  const std::int64_t key = integer_of_64_bits(given_key, "key");
  return PyGroup(
      run_interruptibly([group = self.handle(), key, options] { return group.split_by_host(key, options); }));
}

PyGroup dup(const PyGroup& self, nb::handle timeout) {
  Options options;
  options.timeout = parse_timeout(timeout, "dup");
  return PyGroup(run_interruptibly([group = self.handle(), options] { return group.dup(options); }));
}

void abort(const PyGroup& self, const std::string& reason) {
  const Group& group = self.handle();
  if (self.destroyed()) refuse("abort: group \"", group.name(), "\" was destroyed");
  const GilReleased release;
  group.abort(reason);
}

/// A NumPy array on a Buffer, which lives as long as anything refers to the memory.
nb::object empty(const PyGroup& self, nb::handle shape, nb::handle dtype) {
  const nb::object type = nb::module_::import_("numpy").attr("dtype")(dtype);
  if (nb::cast<bool>(type.attr("hasobject")))
    refuse("empty: dtype ", text_of(type), " has Python objects in it, which other processes cannot share");
  const nb::object dimensions = nb::isinstance<nb::sequence>(shape) ? nb::borrow(shape) : nb::make_tuple(shape);
  auto bytes = nb::cast<std::size_t>(type.attr("itemsize"));
  for (const nb::handle n : dimensions) {
    const auto extent = nb::cast<std::int64_t>(nb::module_::import_("operator").attr("index")(n));
    if (extent < 0) refuse("empty: a dimension of ", extent, " elements; it cannot be negative");
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes))
      refuse("empty: so many elements overflow 64 bits");
  }
  auto buffer = std::make_unique<Buffer>(self.handle().allocate(bytes));
  std::byte* data = buffer->data();
  const nb::capsule owner(buffer.release(), [](void* p) noexcept { delete static_cast<Buffer*>(p); });
  nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>> memory(data, {bytes}, owner);
  return memory.cast(nb::rv_policy::reference).attr("view")(type).attr("reshape")(dimensions);
}

std::string repr(const PyGroup& self) {
  const Group& group = self.handle();
  if (self.destroyed()) return "<unisono.Group: destroyed>";
  return "<unisono.Group '" + group.name() + "': rank " + std::to_string(group.rank()) + " of " +
         std::to_string(group.size()) + " over " + std::string(group.transport()) + ">";
}

/// Leaving a with statement: destroy, or abort when it was left by an exception, so that the other ranks need not wait.
void exit(PyGroup& self, nb::handle type, nb::handle value, nb::handle) {
  if (type.is_none() || self.destroyed() || !self.handle().made_here()) return self.destroy();
  const std::string what = text_of(type.attr("__name__")) + ": " + text_of(value);
  abort(self, "rank " + std::to_string(self.handle().rank()) + " left with " + what);
  self.destroy();
}

/// Ranks as threads; see unisono.spawn_threads. Returns what each rank's `fn` returned.
nb::list spawn_threads(int size, nb::callable fn, std::optional<Config> given) {
  const Config config = given.value_or(Config());
  if (size < 1) refuse("spawn_threads: size is ", size, "; at least one rank is needed");
  struct Shared {
    nb::callable fn;
    std::vector<nb::object> results;
    nb::object error;  // the first rank's that raised
    ~Shared() {        // may die in a worker thread that outlived an interrupted caller
      const GilHeld acquire;
      fn.reset();
      results.clear();
      error.reset();
    }
  };
  auto shared = std::make_shared<Shared>();
  shared->fn = fn;
  shared->results.resize(static_cast<std::size_t>(size), nb::none());
  const auto body = [shared](Group group) {
    const GilHeld acquire;
    try {
      shared->results[static_cast<std::size_t>(group.rank())] =
          call_interpreter([&] { return shared->fn(PyGroup(group)); });
    } catch (nb::python_error& e) {
      const std::string what = e.what();
      if (!shared->error.is_valid()) shared->error = nb::borrow(e.value());
      const GilReleased release;
      group.abort("rank " + std::to_string(group.rank()) + " raised " +
                  what.substr(what.rfind('\n', what.size() - 2) + 1));
    }
  };
  run_interruptibly([size, body, config] {
    unisono::spawn_threads(size, body, config);
    return true;
  });
  if (shared->error.is_valid()) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(shared->error.ptr())), shared->error.ptr());
    throw nb::python_error();
  }
  nb::list results;
  for (nb::object& result : shared->results) results.append(result);
  return results;
}

}  // namespace

void register_group(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<PyGroup> cls(m, "Group",
                          "Ranks that do things together. All ranks call its collectives in the same order.\n\n"
                          "Any thread may use it. Every blocking call ends: with success, or with an exception that "
                          "names the rank; Ctrl-C\n"
                          "works in all of them, and aborts the group when it ends a collective half-way. As a context "
                          "manager it destroys\n"
                          "itself at the end, or aborts when left by an exception.");
  cls.def_prop_ro(
         "rank", [](const PyGroup& self) { return self.handle().rank(); }, "This process's number: 0 to size - 1.")
      .def_prop_ro(
          "size", [](const PyGroup& self) { return self.handle().size(); }, "How many ranks there are.")
      .def_prop_ro(
          "name", [](const PyGroup& self) { return self.handle().name(); }, "The group's name.")
      .def_prop_ro(
          "transport", [](const PyGroup& self) { return std::string(self.handle().transport()); },
          "How the members reach each other: shm, tcp, mixed or inproc.")
      .def_prop_ro(
          "algorithms", [](const PyGroup& self) { return self.handle().algorithms(); },
          "The selection table in force, as UNISONO_ALGORITHM has it.")
      .def_prop_ro(
          "topology", [](const PyGroup& self) { return self.handle().topology(); },
          "What figures measured on this group are true of: version, transport, which rank is on which host, "
          "processors\n"
          "and cores. Empty for a group of one, and for groups within a group.")
      .def_prop_ro(
          "sequence_number", [](const PyGroup& self) { return self.handle().sequence_number(); },
          "Collectives started so far.")
      .def_prop_ro("destroyed", &PyGroup::destroyed, "Whether destroy() was called here.")
      .def_prop_ro(
          "made_here", [](const PyGroup& self) { return self.handle().made_here(); },
          "False in a forked child of the process that made the group: there it can only be looked at, and every call\n"
          "raises InvalidArgument.");
  register_collectives(cls);
  register_point_to_point(cls);
  register_object_collectives(cls);
  register_varying(cls);
  cls.def("empty", &empty, "shape"_a, "dtype"_a = "float32",
          nb::sig("def empty(self, shape: SupportsIndex | Sequence[SupportsIndex], dtype: DTypeLike = 'float32') -> "
                  "NDArray[Any]"),
          docs::kEmpty);
  cls.def("shares", &PyGroup::shares, "array"_a.none(), nb::sig("def shares(self, array: Array) -> bool"),
          docs::kShares);
  cls.def("register", &PyGroup::register_array, "array"_a.none(),
          nb::sig("def register(self, array: Array) -> Registration"), docs::kRegister);
  cls.def("subgroup", &subgroup, "ranks"_a, nb::kw_only(), "timeout"_a = nb::none(),
          nb::sig("def subgroup(self, ranks: Sequence[int], *, timeout: Seconds = None) -> Group"), docs::kSubgroup)
      .def("split", &split, "colour"_a.none(), "key"_a = 0, nb::kw_only(), "timeout"_a = nb::none(),
           nb::sig("def split(self, colour: SupportsIndex, key: SupportsIndex = 0, *, timeout: Seconds = None) -> "
                   "Group | None"),
           docs::kSplit)
      .def("split_by_host", &split_by_host, "key"_a = 0, nb::kw_only(), "timeout"_a = nb::none(),
           nb::sig("def split_by_host(self, key: SupportsIndex = 0, *, timeout: Seconds = None) -> Group"),
           docs::kSplitByHost)
      .def("dup", &dup, nb::kw_only(), "timeout"_a = nb::none(),
           nb::sig("def dup(self, *, timeout: Seconds = None) -> Group"), docs::kDup)
      .def("abort", &abort, "reason"_a, docs::kAbort)
      .def("destroy", &PyGroup::destroy, docs::kDestroy)
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Group"))
      .def("__exit__", &exit, "type"_a.none(), "value"_a.none(), "traceback"_a.none(),
           nb::sig("def __exit__(self, type: object, value: object, traceback: object, /) -> None"))
      .def("__repr__", &repr);

  m.def("spawn_threads", &spawn_threads, "size"_a, "fn"_a, "config"_a = nb::none(),
        nb::sig("def spawn_threads(size: int, fn: Callable[[Group], T], config: Config | None = None) -> list[T]"),
        "Ranks as threads of this process: calls fn(group) on `size` threads and returns what each returned, in rank "
        "order.\n\n"
        "Blocks until all have returned; raises the first exception. For tests, studies and notebooks.");
}

}  // namespace unisono::python
