#pragma once
/// Ports and links that serve all their connections at once, each at the same rate, as TCP's do: messages of one connection wait for each
/// other, messages of k connections go at 1/k of the rate each. Part of the engine of the simulator; time is the caller's.
///
/// A link's own clock runs at 1/k while k connections are served; a message that begins when it shows v and needs w is done when it shows
/// v + w, whatever comes and goes meanwhile (Parekh, Gallager, "A generalized processor sharing approach to flow control", 1993).

#include <cstddef>
#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

namespace unisono::simulate {

class FairLinks {
 public:
  struct Message {
    double work = 0;          ///< seconds that it takes alone
    std::uint64_t order = 0;  ///< among those that end at the same time
    std::uint32_t task = 0;   ///< the caller's name for it
  };
  /// When the first of a link's messages will be through, unless one begins before: then `version` is an old one.
  struct Due {
    double time = 0;
    std::uint32_t version = 0;
  };

  explicit FairLinks(std::size_t links) : links_(links) {}

  /// The link serves a message from now on. At most one of each connection: who waits behind it is the caller's to know.
  void begin(std::uint32_t link, const Message& message, double now);
  /// What was due has come; returns the task that is through. Only with a current version.
  std::uint32_t depart(std::uint32_t link, double now);
  /// After any number of the two: the link's next departure, if it serves anything.
  std::optional<Due> due(std::uint32_t link, double now);
  bool current(std::uint32_t link, std::uint32_t version) const { return links_[link].version == version; }
  /// Begins to fetch into the caches what depart() will look at first.
  [[gnu::always_inline]] void fetch(std::uint32_t link) const { __builtin_prefetch(&links_[link]); }
  [[gnu::always_inline]] void fetch_more(std::uint32_t link) const {
    if (!links_[link].served.empty()) __builtin_prefetch(&links_[link].served.top());
  }

 private:
  struct Served {
    double end;  ///< on the link's clock
    Message message;
    bool operator>(const Served& other) const {
      return end != other.end ? end > other.end : message.order > other.message.order;
    }
  };
  struct Link {
    double clock = 0, read_at = 0;
    std::uint32_t version = 0;
    std::priority_queue<Served, std::vector<Served>, std::greater<>> served;
  };
  static void read(Link& link, double now);
  std::vector<Link> links_;
};

}  // namespace unisono::simulate
