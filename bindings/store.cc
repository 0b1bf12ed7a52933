#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "core.h"
#include "interrupt.h"

namespace unisono::python {
namespace {

using Clock = std::chrono::steady_clock;

std::span<const std::byte> view(const nb::bytes& value) {
  return {static_cast<const std::byte*>(value.data()), value.size()};
}
nb::bytes to_python(const Bytes& value) { return nb::bytes(value.data(), value.size()); }

/// Call `attempt(slice)` until it succeeds or `timeout` has passed, looking at signals in between. It throws Timeout
/// when a slice was too short.
template <class F>
auto in_slices(nb::handle timeout, const char* operation, F attempt) -> decltype(attempt(Duration{})) {
  const auto limit = parse_timeout(timeout, operation);
  if (!limit) refuse(operation, ": timeout cannot be None; give seconds or a timedelta");
  const auto deadline = Clock::now() + *limit;
  for (;;) {
    check_signals();
    const Duration left = std::max<Duration>(deadline - Clock::now(), Duration::zero());
    try {
      const GilReleased release;
      return attempt(std::min(left, kAskEvery));
    } catch (const Timeout& e) {  // it speaks of the last slice
      if (left <= kAskEvery) throw Timeout(std::string(e.what()) + " (" + text_of(*limit) + " s in all)", e.missing);
    }
  }
}

nb::bytes get(Store& store, const std::string& key, nb::handle timeout) {
  return to_python(in_slices(timeout, "Store.get", [&](Duration slice) { return store.get(key, slice); }));
}

void wait(Store& store, const std::vector<std::string>& keys, nb::handle timeout) {
  in_slices(timeout, "Store.wait", [&](Duration slice) {
    store.wait(keys, slice);
    return true;
  });
}

void set(Store& store, const std::string& key, const nb::bytes& value) {
  const auto bytes = view(value);
  const GilReleased release;
  store.set(key, bytes);
}

nb::bytes compare_set(Store& store, const std::string& key, const nb::bytes& expected, const nb::bytes& desired) {
  const auto before = view(expected), after = view(desired);
  Bytes result;
  {
    const GilReleased release;
    result = store.compare_set(key, before, after);
  }
  return to_python(result);
}

}  // namespace

void register_store(nb::module_& m) {
  using namespace nb::literals;
  using Release = nb::call_guard<GilReleased>;
  const auto wait_sig =
      nb::sig("def wait(self, keys: Sequence[str], timeout: float | datetime.timedelta = 300.0) -> None");
  const auto get_sig = nb::sig("def get(self, key: str, timeout: float | datetime.timedelta = 300.0) -> bytes");
  nb::class_<Store>(m, "Store",
                    "A small key-value service through which ranks find each other. Keys are strings up to 1 KiB, "
                    "values bytes up to\n"
                    "8 MiB. Any thread may use it. A lost server is a SystemError.")
      .def("set", &set, "key"_a, "value"_a, "Set `key`; replaces an older value.")
      .def("get", &get, "key"_a, "timeout"_a = 300.0, get_sig,
           "The value of `key`, waiting until somebody sets it. Raises Timeout naming the key.")
      .def("add", &Store::add, "key"_a, "delta"_a, Release(),
           "Atomically add to an integer (absent counts as 0) and return the sum. It is stored as decimal text.")
      .def("compare_set", &compare_set, "key"_a, "expected"_a, "desired"_a,
           "Set `key` to `desired` if its value is `expected` (an absent key matches b\"\"); returns the value after "
           "it.")
      .def(
          "check", [](Store& store, const std::vector<std::string>& keys) { return store.check(keys); }, "keys"_a,
          Release(), "Whether all keys are there, without waiting.")
      .def("wait", &wait, "keys"_a, "timeout"_a = 300.0, wait_sig,
           "Wait until all keys are there. Raises Timeout naming those that are missing.")
      .def("erase", &Store::erase, "key"_a, Release(), "Remove a key; whether it was there.")
      .def("describe", &Store::describe, "One line for error messages: \"tcp store at 10.0.0.1:29500\".")
      .def("__repr__", [](const Store& store) { return "<unisono.Store: " + store.describe() + ">"; });

  m.def("make_memory_store", &make_memory_store, "A store inside this process, for ranks that are threads.");
  m.def("make_file_store", &make_file_store, "path"_a,
        "A store in a file that all ranks can reach (also over NFS); `path` is created when absent.");
  m.def(
      "make_tcp_store",
      [](const std::string& address, bool serve, nb::handle timeout) {
        const auto limit = parse_timeout(timeout, "make_tcp_store");
        return run_interruptibly(
            [=] { return make_tcp_store(address, serve, limit.value_or(std::chrono::minutes(5))); });
      },
      "address"_a, nb::kw_only(), "serve"_a, "timeout"_a = 300.0,
      nb::sig("def make_tcp_store(address: str, *, serve: bool, timeout: float | datetime.timedelta = 300.0) -> Store"),
      "A store at HOST:PORT, which one process serves and others connect to; at a loopback address for this user's\n"
      "processes alone, between hosts with the job's secret. It serves as long as the store lives.");
  m.def("make_prefix_store", &make_prefix_store, "prefix"_a, "inner"_a, "All keys of `inner` under `prefix` + \"/\".");
}

}  // namespace unisono::python
