#pragma once
/// What the built-in table does not know: ranks of one host that take turns on its processors, and
/// messages that go over no link. Measured; docs/design/0006-choosing.md.

#include <cstddef>
#include <string>

namespace unisono::plan {

/// Rules, in the syntax of Selector::parse, for a group of `ranks` that are all on one host and may
/// run on `processors` of it, whose second cache has so many bytes (0: unknown). They go before all
/// that was measured for the group's very layout.
std::string rules_of_one_host(std::size_t ranks, std::size_t processors, std::size_t second_cache);

}  // namespace unisono::plan
