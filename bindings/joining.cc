/// What front ends in Python need that bring ranks together themselves, as unisono.torch does:
/// settings without a rank, a job secret, and another library's store as ours.

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <unisono/secret.hpp>

#include "core.h"
#include "interrupt.h"

namespace unisono::python {
namespace {

using Clock = std::chrono::steady_clock;

nb::bytes to_python(std::span<const std::byte> value) { return nb::bytes(value.data(), value.size()); }

Bytes to_cpp(nb::handle value) {
  const auto bytes = nb::cast<nb::bytes>(value);
  const auto* data = static_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

/// Another library's store, by the names of torch.distributed.Store's methods. Thread-safety: any
/// thread; each call takes the GIL. What the store raises is SystemError with its text, or Timeout
/// where the time is over.
class ForeignStore final : public Store {
 public:
  ForeignStore(nb::object store, std::string description)
      : store_(std::move(store)), description_(std::move(description)) {}
  ~ForeignStore() override {
    if (Py_IsInitialized() == 0) {  // the interpreter has ended, and the object with it
      (void)store_.release();
      return;
    }
    const GilHeld acquire;
    store_.reset();
  }
  ForeignStore(const ForeignStore&) = delete;
  ForeignStore& operator=(const ForeignStore&) = delete;

  void set(std::string_view key, std::span<const std::byte> value) override {
    call("set", key, [&] { store_.attr("set")(name_of(key), to_python(value)); });
  }
  Bytes get(std::string_view key, Duration timeout) override {
    const std::string name(key);
    wait(std::span(&name, 1), timeout);
    return call("get", key, [&] { return to_cpp(store_.attr("get")(name_of(key))); });
  }
  std::int64_t add(std::string_view key, std::int64_t delta) override {
    return call("add", key, [&] { return nb::cast<std::int64_t>(store_.attr("add")(name_of(key), delta)); });
  }
  Bytes compare_set(std::string_view key, std::span<const std::byte> expected,
                    std::span<const std::byte> desired) override {
    return call("compare_set", key, [&] {
      return to_cpp(store_.attr("compare_set")(name_of(key), to_python(expected), to_python(desired)));
    });
  }
  bool check(std::span<const std::string> keys) override {
    return call("check", keys.empty() ? "" : keys.front(),
                [&] { return nb::cast<bool>(store_.attr("check")(list_of(keys))); });
  }
  void wait(std::span<const std::string> keys, Duration timeout) override {
    if (keys.empty()) return;
    // At least 1 ms: to torch 0 means for ever.
    const auto limit = std::clamp<Duration>(timeout, std::chrono::milliseconds(1), std::chrono::hours(24 * 365));
    const auto until = Clock::now() + limit;
    try {
      call("wait", keys.front(), [&] {
        const double seconds = std::chrono::duration<double>(limit).count();
        const nb::object delta = nb::module_::import_("datetime").attr("timedelta")(0, seconds);
        store_.attr("wait")(list_of(keys), delta);
      });
    } catch (const SystemError& e) {
      // torch's stores tell a missed key from a lost server in their text alone, and each in words
      // of its own.
      if (Clock::now() + std::chrono::milliseconds(1) < until) throw;
      throw Timeout(e.what(), {});
    }
  }
  bool erase(std::string_view key) override {
    return call("erase", key, [&] { return nb::cast<bool>(store_.attr("delete_key")(name_of(key))); });
  }
  std::string describe() const override { return description_; }

 private:
  static nb::str name_of(std::string_view key) { return nb::str(key.data(), key.size()); }
  static nb::list list_of(std::span<const std::string> keys) {
    nb::list list;
    for (const std::string& key : keys) list.append(name_of(key));
    return list;
  }
  template <class F>
  auto call(const char* verb, std::string_view key, F&& f) -> decltype(f()) {
    const GilHeld acquire;
    try {
      return f();
    } catch (nb::python_error& e) {
      throw SystemError(description_ + ", " + verb + " of key " + std::string(key) + ": " + text_of(e.value()), 0);
    }
  }

  nb::object store_;
  const std::string description_;
};

SecretTerms terms_of(int rank, int size, nb::handle timeout, bool one_host, bool strict, bool allow_insecure) {
  SecretTerms terms;
  terms.rank = rank;
  terms.size = size;
  terms.timeout = parse_timeout(timeout, "agree_on_secret").value_or(terms.timeout);
  terms.one_host = one_host;
  terms.strict = strict;
  terms.allow_insecure = allow_insecure;
  return terms;
}

std::string agree(const std::shared_ptr<Store>& store, int rank, int size, nb::handle timeout, bool one_host,
                  bool strict, bool allow_insecure) {
  const SecretTerms terms = terms_of(rank, size, timeout, one_host, strict, allow_insecure);
  return run_interruptibly([store, terms] { return agree_on_secret(*store, terms); });
}

void decline(const std::shared_ptr<Store>& store, int rank, int size, const std::string& reason) {
  SecretTerms terms;
  terms.rank = rank;
  terms.size = size;
  const GilReleased release;
  decline_secret(*store, terms, reason);
}

}  // namespace

void register_joining(nb::module_& m) {
  using namespace nb::literals;
  m.def(
      "settings_from_env", &Config::settings_from_env,
      "The settings of the environment and its secret, without rank, size and place to meet, whatever a launcher says: "
      "for\n"
      "programs that know those. Raises InvalidArgument naming the variable.");
  m.def(
      "make_foreign_store",
      [](nb::object store, std::string description) -> std::shared_ptr<Store> {
        return std::make_shared<ForeignStore>(std::move(store), std::move(description));
      },
      "store"_a, "description"_a,
      "A store of another library: an object with torch.distributed.Store's methods set, get, add, compare_set, "
      "check,\n"
      "wait and delete_key. Any thread may use it; every call takes Python's lock. description: for error messages.");
  m.def(
      "agree_on_secret", &agree, "store"_a, "rank"_a, "size"_a, nb::kw_only(), "timeout"_a = nb::none(),
      "one_host"_a = false, "strict"_a = false, "allow_insecure"_a = false,
      nb::sig("def agree_on_secret(store: Store, rank: int, size: int, *, timeout: float | datetime.timedelta | None "
              "= None, one_host: bool = False, strict: bool = False, allow_insecure: bool = False) -> str"),
      "A new job secret, in hexadecimal digits, the same on all ranks; every rank calls it once for one store.\n\n"
      "On one host it travels over a unix socket to processes of this user alone; between hosts through the store, "
      "with a\n"
      "warning. one_host: that all ranks are on this host is known from elsewhere, and a rank that says otherwise is\n"
      "refused. strict: several hosts are an error. allow_insecure: they need no warning.\n"
      "Blocks until all ranks have called (5 minutes by default). Raises Timeout naming those that have not,\n"
      "InvalidArgument for what the terms forbid, AuthenticationError when somebody else answers.");
  m.def(
      "open_unguarded_store",
      [](const Config& config) { return run_interruptibly([config] { return open_unguarded_store(config); }); },
      "config"_a,
      "The store that init_method names, for agree_on_secret(): also between hosts without a secret, where it lets in\n"
      "whoever reaches the address and knows the job's name.");
  m.def("decline_secret", &decline, "store"_a, "rank"_a, "size"_a, "reason"_a,
        "In place of agree_on_secret(), by a rank that cannot go on: the others' calls raise InvalidArgument with "
        "`reason`.");
}

}  // namespace unisono::python
