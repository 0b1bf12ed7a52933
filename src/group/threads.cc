/// Ranks as threads of this process.

#include <exception>
#include <mutex>
#include <thread>

#include "group/context_impl.h"
#include "group/group_impl.h"
#include "unisono/group.hpp"

namespace unisono {

void spawn_threads(int size, const std::function<void(Group)>& body, const Config& config) {
  if (size < 1) throw InvalidArgument("spawn_threads: at least one rank is needed");
  const auto hub = transport::InprocHub::create();
  const auto store = make_memory_store();
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int r = 0; r < size; r++) {
    threads.emplace_back([&, r, c = config]() mutable {
      try {
        c.rank = r;
        c.size = size;
        auto context = detail::ContextImpl::create(std::move(c), hub);
        body(Group(detail::join(context, store, r, size, "world")));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (first == nullptr) first = std::current_exception();
      }
    });
  }
  for (auto& t : threads) t.join();
  if (first != nullptr) std::rethrow_exception(first);
}

}  // namespace unisono
