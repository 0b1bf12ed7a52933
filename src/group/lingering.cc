#include "group/lingering.h"

#include <chrono>
#include <utility>

#include "group/join_report.h"
#include "unisono/group.hpp"

namespace unisono {
namespace detail {
namespace {

constexpr auto kLongestStay = std::chrono::seconds(3);
constexpr auto kBetweenCounts = std::chrono::milliseconds(50);

void wait_for_all(group::JoinReport& report, const std::atomic<bool>& stopped) {
  const auto until = std::chrono::steady_clock::now() + kLongestStay;
  try {
    while (!stopped && !report.all_came() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(kBetweenCounts);
  } catch (const std::exception&) {  // the store is lost: nobody reads it
  }
}

}  // namespace

void Lingering::keep(std::shared_ptr<Store> store, std::string group, int size, std::string host, std::int64_t pid) {
  const std::lock_guard lock(mutex_);
  threads_.emplace_back(
      [this, store = std::move(store), group = std::move(group), size, host = std::move(host), pid]() mutable {
        {
          group::JoinReport report(*store, group, 0, size, host, pid);
          wait_for_all(report, stopped_);
        }
        store.reset();
      });
}

void Lingering::wait() {
  std::vector<std::thread> threads;
  {
    const std::lock_guard lock(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) {
    if (process_.here())
      thread.join();
    else  // a forked child has no such thread
      new std::thread(std::move(thread));
  }
}

void Lingering::stop() {
  stopped_ = true;
  wait();
  stopped_ = false;
}

}  // namespace detail

Latecomers::Latecomers() : impl_(std::make_unique<detail::Lingering>()) {}
Latecomers::~Latecomers() = default;
void Latecomers::wait() { impl_->wait(); }

}  // namespace unisono
