#include "rendezvous/watchful_get.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "rendezvous/when_gone.h"
#include "unisono/error.hpp"

namespace unisono::rendezvous {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// A server answers some ten thousand questions a second, in all.
constexpr Duration kFirstWait = milliseconds(50), kLongestWait = milliseconds(200);
constexpr Duration kFirstPause = milliseconds(1), kLongestPause = milliseconds(20);
constexpr Duration kBetweenNews = milliseconds(50);

Duration longest(Duration for_few, int clients, Duration for_each) { return std::max(for_few, clients * for_each); }

bool is_there(Store& store, const std::string& key) noexcept {
  try {
    return store.check(std::span(&key, 1));
  } catch (...) {
    return false;  // whoever asks has a better reason to give
  }
}

class Wait {
 public:
  Wait(Store& store, const std::string& key, Duration patience, const std::function<void()>& news)
      : store_(store), key_(key), until_(saturating_add(now(), patience)), news_(news) {}

  Bytes by_waiting(int clients) {
    const Duration most = longest(kLongestWait, clients, microseconds(500));
    for (Duration part = kFirstWait;; part = std::min(2 * part, most)) {
      const Duration rest = left();
      try {
        return store_.get(key_, std::min(part, rest));
      } catch (const Timeout&) {
        if (rest <= part) throw;
      }
      if (no_use()) return store_.get(key_, left());
    }
  }

  Bytes by_looking(int clients) {
    const Duration most = longest(kLongestPause, clients, microseconds(100));
    TimePoint next_news = now() + kBetweenNews;
    for (Duration pause = kFirstPause; !store_.check(std::span(&key_, 1)); pause = std::min(2 * pause, most)) {
      if (now() >= until_) break;  // and get() says so
      std::this_thread::sleep_for(std::min(pause, left()));
      if (now() < next_news) continue;
      if (no_use()) break;
      next_news = now() + longest(kBetweenNews, clients, microseconds(500));
    }
    return store_.get(key_, left());
  }

 private:
  static TimePoint now() { return std::chrono::steady_clock::now(); }
  Duration left() const { return std::max<Duration>(until_ - now(), milliseconds(1)); }

  /// True: but the key is there.
  bool no_use() const {
    try {
      news_();
      return false;
    } catch (...) {
      if (is_there(store_, key_)) return true;
      throw;
    }
  }

  Store& store_;
  const std::string& key_;
  const TimePoint until_;
  const std::function<void()>& news_;
};

}  // namespace

Bytes watchful_get(Store& store, const std::string& key, Duration patience, int clients,
                   const std::function<void()>& news) {
  Wait wait(store, key, patience, news);
  return keeps_last_words(store) ? wait.by_waiting(clients) : wait.by_looking(clients);
}

}  // namespace unisono::rendezvous
