#pragma once
/// The ports and links of a simulated network, each serving one message after the other. Part of the engine of the simulator.

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "simulate/model.h"
#include "simulate/world.h"

namespace unisono::simulate {

/// What a message goes through behind its sender's port: links by number; ports are links, too.
using Route = std::vector<LinkId>;

/// How the hosts of the world stand for those of the network.
enum class Picture : std::uint8_t {
  whole,  ///< each for itself
  /// One host stands for all, which do the same at the same time. A message to the host d places on takes as long as the slowest of those
  /// that all hosts then send d places on: their busiest link is a third port of the host, and serves so many messages as one.
  one_host,
};

class Fabric {
 public:
  /// Fails when `world` has more hosts than the network, or (one_host) too many distances to look at all of them.
  static Result<Fabric> make(const Model& model, const World& world, Picture picture);

  /// The way from host `from` to host `to`, which is `shift` on (one_host: both are 0). Not for messages inside a host.
  void route(std::int32_t from, std::int32_t to, std::int32_t shift, Route& links) const;
  /// Serves a message of `bytes` that goes `shift` hosts on, and whose first and last byte come at `head` and `tail`. Returns when the link
  /// begins with it; sets `head` and `tail` to when they are at the next link.
  double serve(LinkId link, std::int32_t shift, double bytes, double& head, double& tail);
  /// The same for a link that serves its connections side by side: how long the message takes alone there, and how long it is then under
  /// way to the next link. Remembers what the link has taken.
  struct Charge {
    double work, onward;
  };
  Charge take(LinkId link, std::int32_t shift, double bytes, double now);
  double onward(LinkId link, std::int32_t shift) const { return charge(link, shift, 0).onward; }
  std::size_t links() const noexcept { return free_.size(); }
  /// When the port or link will have served what it has taken.
  double free_at(LinkId link) const { return free_[link]; }

  /// Seconds that a byte is under way from the route's link of that number to the receiver, without any waiting.
  double left(std::size_t link, const Route& links, std::int32_t shift) const;
  /// The whole way.
  double latency(const Route& links, std::int32_t shift) const { return left(0, links, shift); }

  /// The link that was busy longest, and how long.
  std::pair<LinkId, double> busiest() const;
  std::string name_of(LinkId link) const;
  double mean_hops() const noexcept { return mean_hops_; }

 private:
  Fabric(const Model& model, std::int32_t hosts, Picture picture) : model_(model), hosts_(hosts), picture_(picture) {}
  Charge charge(LinkId link, std::int32_t shift, double bytes) const;
  double gap(LinkId link) const { return link >= links_ ? model_.network.g : 0; }
  Status measure_shifts(const World& world);
  void measure_hops();

  struct Shift {
    double load = 1;  ///< messages over the busiest link when all hosts send at once
    double hops = 0;  ///< links on the longest way
  };
  Model model_;
  std::int32_t hosts_;  ///< of the picture
  Picture picture_;
  std::int64_t links_ = 0;  ///< then the ports out of hosts, then those into hosts
  std::vector<double> free_, busy_;
  std::unordered_map<std::int32_t, Shift> shifts_;
  double mean_hops_ = 0;
};

}  // namespace unisono::simulate
