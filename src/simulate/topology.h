#pragma once
/// The switches and cables between hosts: which links a message passes. A value; pure.
///
/// Links are directed and numbered from 0; a host's own two ports are not among them (they belong to every network, and the engine
/// has them). Routing is deterministic and minimal:
///   crossbar    no links: only ports can be busy
///   fat-tree    three levels of switches with k ports (k even): k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores, k^3/4 hosts.
///               The way up is chosen by the destination ("D-mod-k"), so that all messages to one host share one way down and shifts do
///               not collide. taper t: links above the edge switches have 1/t of the rate.
///               Al-Fares, Loukissas, Vahdat, SIGCOMM 2008; Zahavi, "Fat-tree routing ... for shift permutations", 2010
///   dragonfly   groups of a routers, all connected with each other, p hosts and h cables to other groups on each; a h + 1 groups, one
///               cable between each two of them. At most one local, one global and one local hop. Kim, Dally, Scott, Abts, ISCA 2008
///   torus       a host on every node of a grid that is closed in each dimension; one dimension after the other, the shorter way round
/// Host i sits at place i in the order of the structure: neighbours in number are neighbours in the network.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace unisono::simulate {

using LinkId = std::uint32_t;

struct Topology {
  enum class Kind : std::uint8_t { crossbar, fat_tree, dragonfly, torus };

  Kind kind = Kind::crossbar;
  std::int32_t k = 0;                          ///< fat-tree
  double taper = 1;                            ///< fat-tree
  std::int32_t a = 0, h = 0, p = 0;            ///< dragonfly
  std::array<std::int32_t, 3> sides{1, 1, 1};  ///< torus; unused sides are 1
  double hop = 100e-9;                         ///< seconds from one link to the next
  double link = 0;                             ///< seconds a byte of a link; 0: as the hosts' ports
  friend bool operator==(const Topology&, const Topology&) = default;
};

/// How many hosts it has room for; 0 for a crossbar: any number.
std::int64_t capacity(const Topology& topology);
/// What is wrong with its numbers, if anything.
Status check(const Topology& topology);
/// How many links it has.
std::int64_t link_count(const Topology& topology);
/// Appends the links from host `from` to another host `to`, in order.
void route(const Topology& topology, std::int32_t from, std::int32_t to, std::vector<LinkId>& links);
/// Seconds a byte of a link, where the hosts' ports take `port`.
double time_per_byte(const Topology& topology, double port);
/// "pod 3, edge 1 up to aggregation 0".
std::string link_name(const Topology& topology, LinkId link);

}  // namespace unisono::simulate
