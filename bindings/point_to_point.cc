#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "docs.h"
#include "group.h"
#include "interrupt.h"
#include "operation.h"
#include "work.h"

namespace unisono::python {
namespace {

std::span<std::byte> bytes_of(const Array& x) {
  return {static_cast<std::byte*>(x.data()), static_cast<std::size_t>(x.count())};
}

/// Run `f` with the GIL released; a signal handler's exception wins over what it throws.
template <class F>
auto blocking(F f) -> decltype(f()) {
  try {
    const GilReleased release;
    return f();
  } catch (...) {
    rethrow();
  }
}

void send(const PyGroup& self, nb::handle x, int dst, std::int64_t tag, nb::handle timeout) {
  Operation o(self, "send", timeout, nb::none());
  o.x.import(x, Access::read, Elements::bytes, o.name, "x");
  blocking([&] { o.group.send(bytes_of(o.x), dst, tag, o.call.options); });
  check_raised("the message was sent before the call could be interrupted, and the group can be used");
}

Received recv(const PyGroup& self, nb::handle x, int src, std::int64_t tag, nb::handle timeout) {
  Operation o(self, "recv", timeout, nb::none());
  o.x.import(x, Access::write, Elements::bytes, o.name, "x");
  const Received received = blocking([&] { return o.group.recv(bytes_of(o.x), src, tag, o.call.options); });
  o.x.copy_back();
  check_raised("a message came before the receive could be interrupted: it is in x, and the group can be used");
  return received;
}

template <class Start>
PyWork start(const PyGroup& self, std::unique_ptr<Operation> o, Start f) {
  o->require_asynchronous(false);
  Work work = blocking([&] { return f(*o); });
  self.state()->sweep();
  return PyWork(std::move(work), std::move(o), self.state());
}

PyWork isend(const PyGroup& self, nb::handle x, int dst, std::int64_t tag, nb::handle timeout) {
  auto o = std::make_unique<Operation>(self, "isend", timeout, nb::none());
  o->x.import(x, Access::read, Elements::bytes, o->name, "x");
  return start(self, std::move(o),
               [&](Operation& op) { return op.group.isend(bytes_of(op.x), dst, tag, op.call.options); });
}

PyWork irecv(const PyGroup& self, nb::handle x, int src, std::int64_t tag, nb::handle timeout) {
  auto o = std::make_unique<Operation>(self, "irecv", timeout, nb::none());
  o->x.import(x, Access::write, Elements::bytes, o->name, "x");
  return start(self, std::move(o),
               [&](Operation& op) { return op.group.irecv(bytes_of(op.x), src, tag, op.call.options); });
}

Received sendrecv(const PyGroup& self, nb::handle x, int dst, nb::handle out, int src, std::int64_t send_tag,
                  std::int64_t recv_tag, nb::handle timeout) {
  Operation o(self, "sendrecv", timeout, nb::none());
  o.x.import(x, Access::read, Elements::bytes, o.name, "x");
  o.out.import(out, Access::write, Elements::bytes, o.name, "out");
  const Received received = blocking(
      [&] { return o.group.sendrecv(bytes_of(o.x), dst, bytes_of(o.out), src, send_tag, recv_tag, o.call.options); });
  o.out.copy_back();
  check_raised("both messages had passed before the call could be interrupted, and the group can be used");
  return received;
}

Received sendrecv_replace(const PyGroup& self, nb::handle x, int dst, int src, std::int64_t send_tag,
                          std::int64_t recv_tag, nb::handle timeout) {
  Operation o(self, "sendrecv_replace", timeout, nb::none());
  o.x.import(x, Access::write, Elements::bytes, o.name, "x");
  const Received received =
      blocking([&] { return o.group.sendrecv_replace(bytes_of(o.x), dst, src, send_tag, recv_tag, o.call.options); });
  o.x.copy_back();
  check_raised("both messages had passed before the call could be interrupted, and the group can be used");
  return received;
}

Received probe(const PyGroup& self, int src, std::int64_t tag, nb::handle timeout) {
  const Operation o(self, "probe", timeout, nb::none());
  const Received found = blocking([&] { return o.group.probe(src, tag, o.call.options); });
  check_raised("a message is there: receive it; the group can be used");
  return found;
}

std::optional<Received> iprobe(const PyGroup& self, int src, std::int64_t tag) {
  const Operation o(self, "iprobe", nb::none(), nb::none());
  return blocking([&] { return o.group.iprobe(src, tag); });
}

}  // namespace

void register_point_to_point(nb::class_<PyGroup>& cls) {
  using namespace nb::literals;
  const auto none = nb::none();
  const nb::kw_only named;
  cls.def("send", &send, "x"_a.none(), "dst"_a, "tag"_a = 0, named, "timeout"_a = none,
          nb::sig("def send(self, x: Array, dst: int, tag: int = 0, *, timeout: Seconds = None) -> None"), docs::kSend);
  cls.def(
      "recv", &recv, "x"_a.none(), "src"_a = kAnyRank, "tag"_a = 0, named, "timeout"_a = none,
      nb::sig("def recv(self, x: Array, src: int = ANY_RANK, tag: int = 0, *, timeout: Seconds = None) -> Received"),
      docs::kRecv);
  cls.def("isend", &isend, "x"_a.none(), "dst"_a, "tag"_a = 0, named, "timeout"_a = none,
          nb::sig("def isend(self, x: Array, dst: int, tag: int = 0, *, timeout: Seconds = None) -> Work"),
          docs::kISend);
  cls.def("irecv", &irecv, "x"_a.none(), "src"_a = kAnyRank, "tag"_a = 0, named, "timeout"_a = none,
          nb::sig("def irecv(self, x: Array, src: int = ANY_RANK, tag: int = 0, *, timeout: Seconds = None) -> Work"),
          docs::kIRecv);
  cls.def("sendrecv", &sendrecv, "x"_a.none(), "dst"_a, "out"_a.none(), "src"_a, "send_tag"_a = 0, "recv_tag"_a = 0,
          named, "timeout"_a = none,
          nb::sig("def sendrecv(self, x: Array, dst: int, out: Array, src: int, send_tag: int = 0, recv_tag: int = 0, "
                  "*, timeout: Seconds = None) -> Received"),
          docs::kSendRecv);
  cls.def("sendrecv_replace", &sendrecv_replace, "x"_a.none(), "dst"_a, "src"_a, "send_tag"_a = 0, "recv_tag"_a = 0,
          named, "timeout"_a = none,
          nb::sig("def sendrecv_replace(self, x: Array, dst: int, src: int, send_tag: int = 0, recv_tag: int = 0, *, "
                  "timeout: Seconds = None) -> Received"),
          docs::kSendRecvReplace);
  cls.def("probe", &probe, "src"_a = kAnyRank, "tag"_a = 0, named, "timeout"_a = none,
          nb::sig("def probe(self, src: int = ANY_RANK, tag: int = 0, *, timeout: Seconds = None) -> Received"),
          docs::kProbe);
  cls.def("iprobe", &iprobe, "src"_a = kAnyRank, "tag"_a = 0,
          nb::sig("def iprobe(self, src: int = ANY_RANK, tag: int = 0) -> Received | None"), docs::kIProbe);
}

}  // namespace unisono::python
