#pragma once
/// Ports and links that serve all their connections at once, each at the same rate, as TCP's do: messages of one connection wait for each
/// other, messages of k connections go at 1/k of the rate each. Part of the engine of the simulator; time is the caller's.
///
/// A link's own clock runs at 1/k while k connections are served; a message that begins when it shows v and needs w is done when it shows
/// v + w, whatever comes and goes meanwhile (Parekh, Gallager, "A generalized processor sharing approach to flow control", 1993).

#include <cstdint>
#include <list>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

namespace unisono::simulate {

class FairLinks {
 public:
  struct Message {
    std::uint64_t connection = 0;
    double work = 0;          ///< seconds that it takes alone
    std::uint64_t order = 0;  ///< among those that end at the same time
    std::uint32_t task = 0;   ///< the caller's name for it
  };
  /// When the first of a link's messages will be through, unless the link is told something before: then `version` is an old one.
  struct Due {
    double time = 0;
    std::uint32_t version = 0;
  };
  struct Departure {
    std::uint32_t task = 0;              ///< is through
    std::optional<std::uint32_t> begun;  ///< the next one of its connection, whose head goes on now
    std::optional<Due> due;              ///< of the link's next one
  };

  explicit FairLinks(std::size_t links) : links_(links) {}

  /// A message's head is there; tells whether it begins at once, and the link's new due time.
  std::pair<bool, Due> enter(std::uint32_t link, const Message& message, double now);
  bool current(std::uint32_t link, std::uint32_t version) const { return links_[link].version == version; }
  /// What is due has come. Only with a current version.
  Departure depart(std::uint32_t link, double now);

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
    std::priority_queue<Served, std::vector<Served>, std::greater<>> served;  ///< one of each connection
    std::unordered_map<std::uint64_t, std::list<Message>> waiting;            ///< behind those, by connection
  };
  static void read(Link& link, double now);
  static Due due(Link& link, double now);
  std::vector<Link> links_;
};

}  // namespace unisono::simulate
