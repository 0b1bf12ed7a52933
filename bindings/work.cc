#include "work.h"

#include <algorithm>

#include "errors.h"
#include "interrupt.h"

namespace unisono::python {

using Clock = std::chrono::steady_clock;

PyWork::~PyWork() {
  // Moved from, done, or still running: then its memory waits in the group's state.
  if (!operation_ || !state_) return;
  if (work_.done())
    settle();
  else
    state_->unwatched.emplace_back(work_, std::move(operation_));
}

void PyWork::wait(nb::handle timeout) {
  const auto limit = parse_timeout(timeout, "wait");
  const auto deadline = Clock::now() + limit.value_or(Duration{});
  const Work work =
      work_;  // `this` may be dropped by another thread's last reference only after we return; the copy is cheap anyway
  for (;;) {
    check_signals();
    Duration slice = kAskEvery;
    if (limit) slice = std::clamp<Duration>(deadline - Clock::now(), Duration::zero(), kAskEvery);
    try {
      const GilReleased release;
      work.wait(slice);
      break;
    } catch (const Timeout&) {
      // Ours, because it goes on; or the operation's own.
      if (work.done()) break;
      if (limit && Clock::now() >= deadline)
        throw Timeout("the operation did not come to an end within " + text_of(*limit) +
                          " s. It goes on: wait again, or abort its group",
                      {});
    } catch (...) {
      operation_.reset();
      throw;
    }
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
      .def("__repr__", [](PyWork& w) { return w.done() ? "<unisono.Work: done>" : "<unisono.Work: in flight>"; });
}

}  // namespace unisono::python
