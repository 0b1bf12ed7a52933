#include "work.h"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <vector>

#include "errors.h"
#include "interrupt.h"

namespace unisono::python {

using Clock = std::chrono::steady_clock;

PyWork::~PyWork() {
  // Moved from, done, or still running: then its memory waits in the group's state.
  if (!operation_ || !state_) return;
  work_.disown();
  if (work_.done())
    settle();
  else
    state_->unwatched.emplace_back(work_, std::move(operation_));
}

void PyWork::wait(nb::handle timeout) {
  const auto limit = parse_timeout(timeout, "wait");
  // `this` may be dropped by another thread's last reference only after we return; the copy is
  // cheap anyway.
  const Work work = work_;
  check_signals();
  try {
    const GilReleased release;
    work.wait(limit.value_or(Duration::max()), &interrupted);
  } catch (const Timeout&) {
    // Ours, because it goes on; or the operation's own.
    if (!work.done())
      throw Timeout("the operation did not come to an end within " + text_of(*limit) +
                        " s. It goes on: wait again, or abort its group",
                    {});
  } catch (...) {
    // A signal handler raised: it goes on.
    if (PyErr_Occurred() != nullptr) throw nb::python_error();
    operation_.reset();
    throw;
  }
  settle();
  if (const auto error = work.error()) std::rethrow_exception(error);
}

/// It is done: its results go to where the caller looks, and its memory is let go.
void PyWork::settle() noexcept {
  if (operation_ && !work_.error()) operation_->finish();
  operation_.reset();
}

bool PyWork::done() noexcept {
  if (!work_.done()) return false;
  settle();
  return true;
}

nb::object PyWork::error() { return done() ? to_python(work_.error()) : nb::none(); }

nb::object PyWork::received() {
  if (!done()) refuse("received: the receive is not done yet; wait() first");
  return nb::cast(work_.received());
}

bool PyWork::cancel() {
  const bool cancelled = work_.cancel();
  if (cancelled) operation_.reset();
  return cancelled;
}

namespace {

/// Works of an iterable, which may have no other owner.
struct Works {
  Works(nb::handle given, const char* operation) {
    if (!nb::isinstance<nb::iterable>(given))
      refuse(operation, ": works is a ", type_of(given), "; give a list of Works");
    for (const nb::handle each : nb::borrow<nb::iterable>(given)) {
      PyWork* work = nullptr;
      if (!nb::try_cast(each, work) || work == nullptr)
        refuse(operation, ": works[", list.size(), "] is a ", type_of(each), "; give Works");
      list.push_back(work);
      kept.append(each);
    }
  }
  std::vector<PyWork*> list;
  nb::list kept;
};

void wait_all(nb::handle given, nb::handle timeout) {
  const Works works(given, "wait_all");
  const auto limit = parse_timeout(timeout, "wait_all");
  const auto deadline = Clock::now() + limit.value_or(Duration{});
  std::exception_ptr first;
  for (PyWork* work : works.list) {
    const double left = std::chrono::duration<double>(std::max<Duration>(deadline - Clock::now(), Duration{})).count();
    try {
      work->wait(limit ? nb::object(nb::float_(left)) : nb::none());
    } catch (const Error&) {
      if (!work->done()) throw;  // the time is over
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

std::optional<std::size_t> wait_any(nb::handle given, nb::handle timeout) {
  const Works works(given, "wait_any");
  std::vector<Work> handles;
  for (const PyWork* work : works.list) handles.push_back(work->handle());
  const auto limit = parse_timeout(timeout, "wait_any");
  const auto deadline = Clock::now() + limit.value_or(Duration{});
  for (;;) {
    check_signals();
    Duration slice = kAskEvery;
    if (limit) slice = std::clamp<Duration>(deadline - Clock::now(), Duration::zero(), kAskEvery);
    const auto found = [&] {
      const GilReleased release;
      return unisono::wait_any(handles, slice);
    }();
    if (found || (limit && Clock::now() >= deadline)) return found;
  }
}

bool test_all(nb::handle given) {
  const Works works(given, "test_all");
  return std::ranges::count_if(works.list, [](PyWork* work) { return !work->done(); }) == 0;
}

}  // namespace

void register_work(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<PyWork>(
      m, "Work",
      "An operation in flight, from async_op=True, isend or irecv. It keeps the arrays alive until it is done, also\n"
      "when it is dropped, which does not cancel it. Do not read what it writes, nor change what it reads, before.\n"
      "A list of outputs is filled by wait(), by done() when it returns True, or, where the Work was dropped, by a\n"
      "later collective of the group.")
      .def("wait", &PyWork::wait, "timeout"_a = nb::none(),
           nb::sig("def wait(self, timeout: float | datetime.timedelta | None = None) -> None"),
           "Block until it is done; Ctrl-C works. Raises what went wrong.\n\n"
           "With a timeout (seconds): raises Timeout when it passes; the operation goes on, and may be waited for "
           "again.")
      .def("done", &PyWork::done, "Whether it is done, well or not. Never blocks.")
      .def("error", &PyWork::error, nb::sig("def error(self) -> BaseException | None"),
           "The exception, when it is done and failed; otherwise None. Never blocks.")
      .def("received", &PyWork::received, nb::sig("def received(self) -> Received"),
           "For irecv, after it is done: who sent, with which tag, how many bytes.")
      .def("cancel", &PyWork::cancel,
           "Give up a receive to which nothing has come: True, and wait() raises Aborted; the group goes on. False:\n"
           "something has come or is coming, or it is no receive, and it ends as it would have. Never blocks.")
      .def("__repr__", [](PyWork& w) { return w.done() ? "<unisono.Work: done>" : "<unisono.Work: in flight>"; });
  m.def("wait_all", &wait_all, "works"_a.none(), "timeout"_a = nb::none(),
        nb::sig("def wait_all(works: Iterable[Work], timeout: float | datetime.timedelta | None = None) -> None"),
        "Block until all are done, in any order; then raises what went wrong with the first that failed.\n\n"
        "With a timeout (seconds): raises Timeout when it passes; those that are not done go on.");
  m.def(
      "wait_any", [](nb::handle works) { return *wait_any(works, nb::none()); }, "works"_a.none(),
      nb::sig("def wait_any(works: Iterable[Work]) -> int"),
      "Block until one is done, well or not, and return its index: wait() on it raises what went wrong.\n\n"
      "Where several are done, the first of them. Raises InvalidArgument for an empty list.");
  m.def("wait_any", &wait_any, "works"_a.none(), "timeout"_a.none(),
        nb::sig("def wait_any(works: Iterable[Work], timeout: float | datetime.timedelta | None) -> int | None"),
        "The same; None when the timeout (seconds) passes.");
  m.def("test_all", &test_all, "works"_a.none(), nb::sig("def test_all(works: Iterable[Work]) -> bool"),
        "Whether all are done, well or not. Never blocks.");
}

}  // namespace unisono::python
