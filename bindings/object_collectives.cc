/// Group's operations on Python objects: lengths first, then bytes. What they mean stands in
/// docs.h.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <numeric>

#include "docs.h"
#include "group.h"
#include "interrupt.h"
#include "objects.h"
#include "operation.h"

namespace unisono::python {
namespace {

using Sizes = std::vector<std::int64_t>;

/// What one call on objects is made of. A rank whose object cannot be sent tells the others so in
/// its place, and they need not wait for it.
class Exchange {
 public:
  Exchange(const PyGroup& group, const char* name, bool pickle, nb::handle timeout)
      : group_(group), name_(name), pickle_(pickle), timeout_(timeout) {}

  int rank() const { return group_.handle().rank(); }
  std::size_t size() const { return static_cast<std::size_t>(group_.handle().size()); }

  std::string encode(nb::handle object) const { return encode_object(object, pickle_, name_); }
  /// The same, but a failure is kept until finish().
  std::string encode_or_tell(nb::handle object) {
    try {
      return encode(object);
    } catch (...) {
      failure_ = std::current_exception();
      return encode_failure(text_of_failure());
    }
  }
  void finish() const {
    if (failure_) std::rethrow_exception(failure_);
  }
  nb::object decode(std::span<const std::byte> bytes, int source) const {
    return decode_object(bytes, pickle_, name_, source);
  }

  void check_root(int root) const {
    if (root < 0 || root >= group_.handle().size())
      refuse(name_, ": root ", root, " is out of range: the group has ranks 0 to ", size() - 1);
  }
  void collective(Collective what, const void* in, void* out, std::int64_t count, DType dtype, int root,
                  const Sizes* counts = nullptr) const {
    Operation o(group_, name_, timeout_, nb::none());
    o.call.collective = what;
    o.call.input = in;
    o.call.output = out;
    o.call.count = count;
    o.call.dtype = dtype;
    o.call.root = root;
    if (counts != nullptr) o.call.counts = *counts;
    o.run();
  }
  Sizes all_sizes(const std::string& mine) const {
    Sizes sizes(size());
    const auto own = static_cast<std::int64_t>(mine.size());
    collective(Collective::all_gather, &own, sizes.data(), 1, DType::i64, 0);
    return sizes;
  }
  Bytes room_for(const Sizes& sizes) const {
    std::int64_t total = 0;
    for (const std::int64_t each : sizes)
      if (each < 0 || __builtin_add_overflow(total, each, &total))
        refuse(name_, ": the lengths of the objects make no sense: ", each, " bytes");
    return room_for(total);
  }
  Bytes room_for(std::int64_t bytes) const {
    try {
      return Bytes(static_cast<std::size_t>(bytes));
    } catch (const std::exception&) {
      refuse(name_, ": there is no memory for ", bytes, " bytes of objects");
    }
  }
  nb::list decode_all(const Bytes& bytes, const Sizes& sizes) const {
    nb::list objects;
    std::size_t at = 0;
    for (std::size_t i = 0; i < sizes.size(); i++) {
      const auto length = static_cast<std::size_t>(sizes[i]);
      objects.append(decode(std::span(bytes).subspan(at, length), static_cast<int>(i)));
      at += length;
    }
    return objects;
  }
  template <class F>
  auto message(F f) const -> decltype(f(std::declval<const Options&>())) {
    const Operation o(group_, name_, timeout_, nb::none());
    try {
      const GilReleased release;
      return f(o.call.options);
    } catch (...) {
      rethrow();
    }
  }
  const Group& handle() const { return group_.handle(); }
  const char* name() const { return name_; }

 private:
  std::string text_of_failure() const {
    try {
      std::rethrow_exception(failure_);
    } catch (nb::python_error& e) {
      return type_of(e.value()) + ": " + text_of(e.value());
    } catch (const std::exception& e) {
      return e.what();
    }
  }

  const PyGroup& group_;
  const char* name_;
  bool pickle_;
  nb::handle timeout_;
  std::exception_ptr failure_;
};

nb::object broadcast(const PyGroup& self, nb::handle object, int root, bool pickle, nb::handle timeout) {
  Exchange e(self, "broadcast_object", pickle, timeout);
  e.check_root(root);
  const bool mine = e.rank() == root;
  std::string data = mine ? e.encode_or_tell(object) : std::string();
  auto length = static_cast<std::int64_t>(data.size());
  e.collective(Collective::broadcast, &length, &length, 1, DType::i64, root);
  if (mine) {
    e.collective(Collective::broadcast, data.data(), data.data(), length, DType::u8, root);
    e.finish();
    return nb::borrow(object);
  }
  Bytes bytes = e.room_for(Sizes{length});
  e.collective(Collective::broadcast, bytes.data(), bytes.data(), length, DType::u8, root);
  return e.decode(bytes, root);
}

nb::object all_gather(const PyGroup& self, nb::handle object, bool pickle, nb::handle timeout) {
  Exchange e(self, "all_gather_object", pickle, timeout);
  const std::string data = e.encode_or_tell(object);
  const Sizes sizes = e.all_sizes(data);
  Bytes bytes = e.room_for(sizes);
  e.collective(Collective::all_gather, data.data(), bytes.data(), 0, DType::u8, 0, &sizes);
  e.finish();
  return e.decode_all(bytes, sizes);
}

nb::object gather(const PyGroup& self, nb::handle object, int root, bool pickle, nb::handle timeout) {
  Exchange e(self, "gather_object", pickle, timeout);
  e.check_root(root);
  const std::string data = e.encode_or_tell(object);
  const Sizes sizes = e.all_sizes(data);
  const bool mine = e.rank() == root;
  Bytes bytes = mine ? e.room_for(sizes) : Bytes();
  e.collective(Collective::gather, data.data(), mine ? bytes.data() : nullptr, 0, DType::u8, root, &sizes);
  e.finish();
  return mine ? nb::object(e.decode_all(bytes, sizes)) : nb::none();
}

nb::object scatter(const PyGroup& self, nb::handle objects, int root, bool pickle, nb::handle timeout) {
  Exchange e(self, "scatter_object", pickle, timeout);
  e.check_root(root);
  const bool mine = e.rank() == root;
  if (mine && (!nb::isinstance<nb::sequence>(objects) || nb::len(objects) != e.size()))
    refuse(e.name(), ": objects must be a list of ", e.size(), " objects at the root, one for each rank");
  Sizes sizes(e.size());
  std::string data;
  for (std::size_t i = 0; mine && i < e.size(); i++) {
    const std::string one = e.encode_or_tell(nb::object(objects[i]));
    sizes[i] = static_cast<std::int64_t>(one.size());
    data += one;
  }
  e.collective(Collective::broadcast, sizes.data(), sizes.data(), static_cast<std::int64_t>(sizes.size()), DType::i64,
               root);
  Bytes bytes = e.room_for(Sizes{sizes[static_cast<std::size_t>(e.rank())]});
  e.collective(Collective::scatter, mine ? data.data() : nullptr, bytes.data(), 0, DType::u8, root, &sizes);
  e.finish();
  return e.decode(bytes, root);
}

void send(const PyGroup& self, nb::handle object, int dst, std::int64_t tag, bool pickle, nb::handle timeout) {
  const Exchange e(self, "send_object", pickle, timeout);
  const std::string data = e.encode(object);
  const auto length = static_cast<std::int64_t>(data.size());
  e.message([&](const Options& options) {
    e.handle().send(std::as_bytes(std::span(&length, 1)), dst, tag, options);
    e.handle().send(std::as_bytes(std::span(data)), dst, tag, options);
    return true;
  });
  check_raised("the object was sent before the call could be interrupted");
}

nb::object recv(const PyGroup& self, int src, std::int64_t tag, bool pickle, nb::handle timeout) {
  const Exchange e(self, "recv_object", pickle, timeout);
  std::int64_t length = 0;
  const Received head = e.message([&](const Options& options) {
    return e.handle().recv(std::as_writable_bytes(std::span(&length, 1)), src, tag, options);
  });
  if (head.bytes != sizeof length || length < 0)
    refuse(e.name(), ": rank ", head.source, " sent ", head.bytes, " bytes with tag ", tag,
           ", which are no object; send with send_object");
  Bytes bytes = e.room_for(length);
  const Received body =
      e.message([&](const Options& options) { return e.handle().recv(bytes, head.source, tag, options); });
  if (body.bytes != length)
    refuse(e.name(), ": of an object of ", length, " bytes rank ", head.source, " sent ", body.bytes,
           "; several threads receive with tag ", tag, ", or it was not sent with send_object");
  const nb::object object = e.decode(bytes, head.source);
  check_raised("the object came before the receive could be interrupted");
  return nb::make_tuple(object, head.source);
}

}  // namespace

void register_object_collectives(nb::class_<PyGroup>& cls) {
  using namespace nb::literals;
  const auto none = nb::none();
  const nb::kw_only named;
  cls.def("broadcast_object", &broadcast, "obj"_a.none() = none, "root"_a = 0, named, "pickle"_a = false,
          "timeout"_a = none,
          nb::sig(
              "def broadcast_object(self, obj: Any = None, root: int = 0, *, pickle: bool = False, timeout: Seconds = "
              "None) -> Any"),
          docs::kBroadcastObject)
      .def("all_gather_object", &all_gather, "obj"_a.none(), named, "pickle"_a = false, "timeout"_a = none,
           nb::sig(
               "def all_gather_object(self, obj: Any, *, pickle: bool = False, timeout: Seconds = None) -> list[Any]"),
           docs::kAllGatherObject)
      .def("gather_object", &gather, "obj"_a.none(), "root"_a = 0, named, "pickle"_a = false, "timeout"_a = none,
           nb::sig(
               "def gather_object(self, obj: Any, root: int = 0, *, pickle: bool = False, timeout: Seconds = None) -> "
               "list[Any] | None"),
           docs::kGatherObject)
      .def("scatter_object", &scatter, "objects"_a.none() = none, "root"_a = 0, named, "pickle"_a = false,
           "timeout"_a = none,
           nb::sig(
               "def scatter_object(self, objects: Sequence[Any] | None = None, root: int = 0, *, pickle: bool = False, "
               "timeout: Seconds = None) -> Any"),
           docs::kScatterObject)
      .def(
          "send_object", &send, "obj"_a.none(), "dst"_a, "tag"_a = 0, named, "pickle"_a = false, "timeout"_a = none,
          nb::sig("def send_object(self, obj: Any, dst: int, tag: int = 0, *, pickle: bool = False, timeout: Seconds = "
                  "None) -> None"),
          docs::kSendObject)
      .def("recv_object", &recv, "src"_a = kAnyRank, "tag"_a = 0, named, "pickle"_a = false, "timeout"_a = none,
           nb::sig(
               "def recv_object(self, src: int = ANY_RANK, tag: int = 0, *, pickle: bool = False, timeout: Seconds = "
               "None) -> tuple[Any, int]"),
           docs::kRecvObject);
}

void register_objects(nb::module_& m) {
  using namespace nb::literals;
  m.def(
      "encode_object",
      [](nb::handle object, bool pickle) {
        const std::string data = encode_object(object, pickle, "encode_object");
        return nb::bytes(data.data(), data.size());
      },
      "obj"_a.none(), nb::kw_only(), "pickle"_a = false,
      nb::sig("def encode_object(obj: Any, *, pickle: bool = False) -> bytes"),
      "An object as the bytes that Group.broadcast_object and its kind send.");
  m.def(
      "decode_object",
      [](nb::bytes data, bool pickle) {
        const auto* bytes = static_cast<const std::byte*>(data.data());
        return decode_object({bytes, data.size()}, pickle, "decode_object", -1);
      },
      "data"_a, nb::kw_only(), "pickle"_a = false,
      nb::sig("def decode_object(data: bytes, *, pickle: bool = False) -> Any"),
      "The object again. Raises InvalidArgument for bytes that are damaged, or pickled without pickle=True.");
}

}  // namespace unisono::python
