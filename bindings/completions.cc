/// Tells a thread of Python's which operations are done, so that callbacks run there and never on
/// the progress thread.

#include <condition_variable>
#include <deque>
#include <mutex>

#include "work.h"

namespace unisono::python {
namespace {

/// Thread-safety: any thread; next() blocks without the GIL.
class Completions {
 public:
  /// `token` comes out of next() once the operation is done, well or not.
  void watch(const PyWork& work, std::int64_t token) {
    work.handle().on_done([queue = queue_, token] {
      {
        const std::lock_guard lock(queue->mutex);
        queue->done.push_back(token);
      }
      queue->arrived.notify_one();
    });
  }

  std::int64_t next() {
    const GilReleased release;
    std::unique_lock lock(queue_->mutex);
    queue_->arrived.wait(lock, [&] { return !queue_->done.empty(); });
    const std::int64_t token = queue_->done.front();
    queue_->done.pop_front();
    return token;
  }

 private:
  struct Queue {
    std::mutex mutex;
    std::condition_variable arrived;
    std::deque<std::int64_t> done;
  };
  std::shared_ptr<Queue> queue_ = std::make_shared<Queue>();
};

}  // namespace

void register_completions(nb::module_& m) {
  using namespace nb::literals;
  nb::class_<Completions>(m, "Completions", "Which operations are done, in the order in which they came to an end.")
      .def(nb::init<>(), "None yet.")
      .def("watch", &Completions::watch, "work"_a, "token"_a,
           "Let next() return `token` once `work` is done, well or not. Never blocks.")
      .def("next", &Completions::next, "Block until one more is done; its token. Signals do not end it.");
}

}  // namespace unisono::python
