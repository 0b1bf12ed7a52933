#pragma once
/// What a message costs: a LogGP network between hosts, memory inside them. A value: parsed, printed and compared. Pure.
///
/// A message of m bytes from one rank to another, host to host (Alexandrov et al., "LogGP", SPAA 1995; the CPU's time per byte is the O
/// of Hoefler et al., "LogGOPSim", HPDC 2010):
///   o + m O       the sender's processor, then it is free
///   g + m G       the port of the sender's host, shared by its ranks: one message after the other
///   L             under way; the bytes follow each other, so that the last one is L + m G behind the first one's start
///   links         as above with the topology's rate, and `hop` seconds each: cut through, one message after the other on each link
///   g + m G       the port of the receiver's host, while the bytes come in
///   o + m O       the receiver's processor
/// Contention, ports=serial: a port or link serves messages whole, in the order in which their heads arrive (what LogGOPSim does at ports).
/// ports=fair: it serves all connections at once at equal rates, as TCP's do; messages of one connection wait for each other. Switches have
/// room for all that waits. SimGrid's flow models go further and lower the rate of a flow on all its links to that of its busiest
/// (max-min fairness); each start and end then changes rates everywhere, which rules it out for 100 000 ranks, and a link here is
/// idle only when nobody has anything for it, either.
///
/// `alpha-beta` is the case o = 0, L = g = alpha, G = beta: a message takes alpha + m beta, and so long both its ports are busy.

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "simulate/topology.h"

namespace unisono::simulate {

/// Between two processes; seconds, and seconds a byte.
struct Wire {
  double L = 0, o = 0, g = 0, G = 0, O = 0;
  friend bool operator==(const Wire&, const Wire&) = default;
};

/// A host with several NUMA nodes. Ranks sit on them as plan::Shape::nodes says.
struct Numa {
  std::int32_t nodes = 0;  ///< 0: a host's memory is never busy
  std::int32_t cores = 0;  ///< of each
  double link = 0;         ///< seconds a byte from one node to another, each way for itself; all ranks share it
  double L = 0;            ///< seconds more until a rank on another node sees what was written
  double memory = 0;  ///< seconds a byte read from or written to a node's memory; all who do share it. 0: never busy
  friend bool operator==(const Numa&, const Numa&) = default;
};

struct Model {
  bool alpha_beta = false;  ///< how it was written, and is printed
  Wire network;
  /// Inside a host: L until another rank sees what was written, o a message and G a byte by either processor. g and O are not used.
  Wire local{200e-9, 100e-9, 0, 0.1e-9, 0};
  bool fair = false;      ///< ports=fair
  double gamma = 0.1e-9;  ///< seconds to add a byte to another one
  double copy = 0.1e-9;   ///< seconds to copy a byte
  double header = 64;     ///< bytes in front of each message
  double buffer =
      4 << 20;  ///< a sender is done with a message once no more than so many bytes wait in front of its host's port
  Topology topology;
  Numa numa;
  friend bool operator==(const Model&, const Model&) = default;
};

/// "alpha-beta:alpha=20us,beta=8ns/B", "loggp:L=1.2us,o=0.3us,g=0.4us,G=0.04ns/B,gamma=0.1ns/B+fat-tree:k=8,taper=2",
/// a preset: "10g", "10g:gamma=0+torus:8x8x8"; parts are separated by +: the network first, then local:L=..,o=..,G=.. and a topology, or
/// numa:2x64,link=64GB/s (nodes x cores), which may be all there is. A name
/// that ends in .json is a file's: an object with the same names ({"loggp": {"L": "1us"}, "fat-tree": {"k": 8}}); this function is given its
/// text, which begins with "{". An error shows what was not understood and what can be written there.
Result<Model> parse_model(std::string_view text);

/// The model in that syntax; parse_model() of it is its equal.
std::string to_text(const Model& model);

/// Names and descriptions of the presets, for help.
struct Preset {
  std::string_view name, what, text;
};
std::vector<Preset> presets();

}  // namespace unisono::simulate
