#pragma once
/// Rules that were measured for a group's very layout: rank 0 looks for them while it has all ranks' introductions in hand, and what it finds
/// travels in the document that everybody reads anyhow. So ranks never choose differently, and it costs no round trip.

#include <string>
#include <string_view>

#include "base/log.h"
#include "unisono/config.hpp"

namespace unisono::detail {

/// Rank 0's word, the same on all ranks.
struct Tuned {
  std::string rules;  ///< in the syntax of plan::Selector; empty: the built-in table alone
  bool measure =
      false;        ///< nothing is known of this layout's links, and they are to be measured when the group is made
  int streams = 0;  ///< to another host, for large messages; 0: nothing is known
  bool count_streams = false;  ///< and when links are measured, they are to be, too
};
std::string to_text(const Tuned& tuned);
Tuned parse_tuned(std::string_view text);

/// Before all that was measured: what the built-in table does not know of `ranks` that are all on one host with so many `processors` (0: they are not), whose second
/// cache has so many bytes: messages that go over no link, and ranks that take turns. Nothing where no bit may depend on who is where.
void add_rules_of_one_host(Tuned& tuned, const Config& config, std::size_t ranks, std::size_t processors,
                           std::size_t second_cache);

/// Looks on the disk. `several_hosts`: there are links to measure. A record that cannot be used is one warning, and none.
Tuned look_for_tuned(const Config& config, const std::string& topology, bool several_hosts, const Logger& log);

}  // namespace unisono::detail
