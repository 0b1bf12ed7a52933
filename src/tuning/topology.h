#pragma once
/// What measured figures are true of: which hosts, how many ranks on each and where, what processor and how many cores they may use, which
/// version. Two groups with the same text may share figures; when anything in it changes, the old figures are not found any more.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace unisono::tuning {

/// Where one rank runs. Thread-safety: a value.
struct Place {
  std::string host;          ///< name, for people too
  std::string processor;     ///< model, one line
  int cores = 1;             ///< that it may use: affinity and quota
  std::int32_t machine = 0;  ///< the same number: they share memory; from 0 in the order of the lowest ranks
  std::int32_t node = -1;    ///< its NUMA node, as its host numbers them; -1: one node, or nobody knows
};

/// The model of this host's processor, one line; "unknown" where /proc does not say. Reads one KiB of one file.
std::string this_processor();

/// The text: one line for the library, one for the layout, one for the layout of NUMA nodes where a rank knows its own, one for each host
/// (its lowest rank's word counts). By rank.
std::string describe(std::string_view version, std::string_view transport, std::span<const Place> ranks);

/// "0 0 1 1" as "0x2 1x2": how many ranks in a row are on which host.
std::string layout_text(std::span<const std::int32_t> hosts);

/// By rank, which host it is on, of a text that describe() made; empty for any other.
std::vector<std::int32_t> hosts_of(std::string_view topology);

/// Likewise, which NUMA node; empty where the text has none.
std::vector<std::int32_t> nodes_of(std::string_view topology);

/// Whether the ranks of that text all know their NUMA node, and are on several, some of which have several.
bool several_nodes(std::string_view topology);

/// 16 hexadecimal digits of a text, the same everywhere: a file's name.
std::string key_of(std::string_view topology);

}  // namespace unisono::tuning
