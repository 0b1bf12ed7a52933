/// What the constants of cost_model.h make of each algorithm, and the rules that follow.

#include <fmt/format.h>

#include <algorithm>

#include "plan/cost_model.h"
#include "plan/host_map.h"
#include "plan/range_rules.h"
#include "plan/select.h"

namespace unisono::plan {

namespace {

/// Some ranks share a host, not all of them.
bool several_hosts(std::span<const std::int32_t> hosts) {
  const HostMap map({static_cast<std::int32_t>(hosts.size()), 0, 0, {hosts.begin(), hosts.end()}});
  return map.count() > 1 && map.count() < static_cast<std::int32_t>(hosts.size());
}

std::vector<SizedChoice> clear_choices(const Selector& built_in, Question question,
                                       std::span<const std::vector<Expectation>> expected,
                                       std::span<const std::int64_t> sizes) {
  std::vector<SizedChoice> choices;
  for (std::size_t i = 0; i < sizes.size(); i++) {
    question.bytes = sizes[i];
    const Algorithm* stands = built_in.choose(question);
    const auto faster = [](const Expectation& a, const Expectation& b) { return a.seconds < b.seconds; };
    const auto best = std::min_element(expected[i].begin(), expected[i].end(), faster);
    const auto own = std::find_if(expected[i].begin(), expected[i].end(),
                                  [&](const Expectation& e) { return e.algorithm == stands; });
    const bool clear = own != expected[i].end() && own->seconds > kClearlyExpected * best->seconds;
    choices.push_back({sizes[i], clear ? best->algorithm : nullptr});
  }
  return choices;
}

}  // namespace

std::vector<std::vector<Expectation>> expect(const CostModel& model, Collective collective,
                                             std::span<const std::int32_t> hosts, std::span<const std::int64_t> sizes,
                                             std::int64_t slice) {
  const Shape shape{static_cast<std::int32_t>(hosts.size()), 0, 0, {hosts.begin(), hosts.end()}};
  std::vector<std::vector<Expectation>> expected(sizes.size());
  for (const Algorithm& a : algorithms()) {
    if (a.collective != collective || needs_one_host(a.place)) continue;
    if (a.place == Place::several_hosts && !several_hosts(hosts)) continue;
    const Schedule schedule(a, shape);
    for (std::size_t i = 0; i < sizes.size(); i++)
      expected[i].push_back({&a, schedule.seconds(model, sizes[i], slice)});
  }
  return expected;
}

std::vector<std::int64_t> expectation_sizes() {
  std::vector<std::int64_t> sizes;
  for (std::int64_t bytes = 64; bytes <= std::int64_t{64} << 20; bytes *= 4) sizes.push_back(bytes);
  return sizes;
}

std::string rules_from(const CostModel& model, std::span<const std::int32_t> hosts, std::int64_t slice) {
  const auto built_in = Selector::parse("");
  const auto ranks = static_cast<std::int32_t>(hosts.size());
  if (!built_in || ranks > kMostRanksToExpect) return {};
  std::string text;
  for (int c = 0; c < kCollectives; c++) {
    Question question;
    question.collective = static_cast<Collective>(c);
    question.one_host = false;
    question.ranks = ranks;
    question.several_hosts = several_hosts(hosts);
    const auto sizes = question.collective == Collective::barrier ? std::vector<std::int64_t>{0} : expectation_sizes();
    const auto expected = expect(model, question.collective, hosts, sizes, slice);
    const std::string head =
        fmt::format("{}@{}[{}]", name_of(question.collective), question.several_hosts ? "hosts" : "net", ranks);
    const std::string rule = range_rules(head, clear_choices(*built_in, question, expected, sizes));
    if (!rule.empty()) text += (text.empty() ? "" : ";") + rule;
  }
  return text;
}

}  // namespace unisono::plan
