#include "group/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/median.h"
#include "group/exchange.h"
#include "group/stream_count.h"
#include "group/talk.h"
#include "kernels/kernels.h"
#include "plan/cost_model.h"
#include "tuning/record.h"

namespace unisono::detail {

namespace {

using nlohmann::json;

constexpr std::int64_t kTag = std::numeric_limits<std::int64_t>::min() + 4711;
constexpr int kTurns = 24, kBurst = 16, kMostPartners = 8;
constexpr std::size_t kPortion = 256 << 10;                   // the size of a slice over the network
constexpr Duration kLongest = std::chrono::milliseconds(40);  // of the portions
constexpr std::size_t kMostPortions = 64, kFewestPortions = 6;

double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

/// One pair of ranks. The lower rank begins, keeps the time, and knows the result.
class Pair {
 public:
  Pair(GroupImpl& group, int other)
      : group_(group), leads_(group.rank() < other), talk_(group, other, kTag, "measuring a link", kPortion) {}

  plan::LinkCost measure() {
    plan::LinkCost link;
    const double there_and_back = turns();
    link.alpha = there_and_back / 2;
    link.gap = std::min(link.alpha, std::max(0.0, burst() - there_and_back) / (kBurst - 1));
    link.beta = std::max(0.0, portion() - there_and_back) / static_cast<double>(kPortion);
    return link;
  }

 private:
  template <class Step>
  double time(const Step& step) {
    const Clock& clock = group_.parts().context->clock;
    const TimePoint start = clock.now();
    step();
    return seconds(clock.now() - start);
  }

  double turns() {
    std::vector<double> times;
    for (int i = 0; i < kTurns; i++)
      times.push_back(time([&] {
        leads_ ? talk_.send(8) : talk_.receive(8);
        leads_ ? talk_.receive(8) : talk_.send(8);
      }));
    return lower_quartile(times);
  }

  /// Many small ones on end, and a word back.
  double burst() {
    std::vector<double> times;
    for (int i = 0; i < kTurns / 3; i++)
      times.push_back(time([&] {
        for (int k = 0; k < kBurst; k++) leads_ ? talk_.send(8) : talk_.receive(8);
        leads_ ? talk_.receive(8) : talk_.send(8);
      }));
    return lower_quartile(times);
  }

  /// Large ones, each with a word back, until there are enough: what a shaper lets through at first is over by half of them.
  double portion() {
    const Clock& clock = group_.parts().context->clock;
    const TimePoint until = saturating_add(clock.now(), kLongest);
    std::vector<double> times;
    for (bool more = true; more;) {
      more = times.size() + 1 < kFewestPortions || (clock.now() < until && times.size() + 1 < kMostPortions);
      talk_.data[0] = static_cast<std::byte>(more);
      times.push_back(time([&] {
        leads_ ? talk_.send(kPortion) : talk_.receive(kPortion);
        if (!leads_) more = talk_.data[0] != std::byte{0};
        leads_ ? talk_.receive(8) : talk_.send(8);
      }));
    }
    times.erase(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    return median(times);  // a shaper lets through more for a while when something else was slow
  }

  GroupImpl& group_;
  bool leads_;
  Talk talk_;
};

/// Seconds a byte to add one vector to another, in the cache.
double measure_sums(const Clock& clock) {
  std::vector<float> a(16 << 10), b(16 << 10);
  std::vector<double> times;
  for (int i = 0; i < 16; i++) {
    const TimePoint start = clock.now();
    const void* sources[] = {a.data(), b.data()};
    kernels::reduce({DType::f32, ReduceOp::sum}, a.data(), nullptr, sources, a.size());
    times.push_back(seconds(clock.now() - start));
  }
  return lower_quartile(times) / static_cast<double>(a.size() * sizeof(float));
}

/// Whom host `me` of `hosts` meets in each round, or -1: everybody once in a full tournament, by the circle method.
std::vector<int> partners(int hosts, int me) {
  const int seats = hosts + hosts % 2, circle = seats - 1;
  std::vector<int> met;
  for (int round = 0; round < std::min(circle, kMostPartners); round++) {
    const int opposite = ((2 * round - me) % circle + circle) % circle;
    const int partner = me == circle ? round : opposite == me ? circle : opposite;
    met.push_back(partner < hosts ? partner : -1);
  }
  return met;
}

json to_json(const plan::LinkCost& link) { return {link.alpha, link.gap, link.beta}; }
plan::LinkCost link_of(const json& j) { return {j.at(0), j.at(1), j.at(2)}; }

/// What this rank has to say: {"gamma": .., "within": [..], "links": [[host, host, [..]], ..], "streams": [..]}.
json measure_own(GroupImpl& group, bool count_streams) {
  const std::vector<std::int32_t>& hosts = group.parts().hosts;
  std::vector<std::vector<int>> members(static_cast<std::size_t>(*std::max_element(hosts.begin(), hosts.end())) + 1);
  for (std::size_t r = 0; r < hosts.size(); r++)
    members[static_cast<std::size_t>(hosts[r])].push_back(static_cast<int>(r));
  const int rank = group.rank(), host = hosts[static_cast<std::size_t>(rank)];
  const auto& own = members[static_cast<std::size_t>(host)];
  json said{
      {"gamma", measure_sums(group.parts().context->clock)}, {"links", json::array()}, {"streams", json::array()}};
  if (own.size() > 1 && (rank == own[0] || rank == own[1])) {
    const auto link = Pair(group, rank == own[0] ? own[1] : own[0]).measure();
    if (rank == own[0]) said["within"] = to_json(link);
  }
  if (rank != own[0]) return said;
  const std::vector<int> met = partners(static_cast<int>(members.size()), host);
  for (std::size_t round = 0; round < met.size(); round++) {
    const int partner = met[round];
    if (partner < 0) continue;
    const int other = members[static_cast<std::size_t>(partner)][0];
    const auto link = Pair(group, other).measure();
    if (rank < other) said["links"].push_back({std::min(host, partner), std::max(host, partner), to_json(link)});
    // What limits a connection limits them all, as a rule: the pairs of the first round are enough.
    const int streams = count_streams && round == 0 ? measure_streams(group, other, link.beta) : 0;
    if (streams > 0) said["streams"].push_back(streams);
  }
  return said;
}

/// Member by member, of several links.
plan::LinkCost typical(const std::vector<plan::LinkCost>& links) {
  plan::LinkCost result;
  if (links.empty()) return result;
  for (double plan::LinkCost::* part : {&plan::LinkCost::alpha, &plan::LinkCost::gap, &plan::LinkCost::beta}) {
    std::vector<double> values;
    for (const plan::LinkCost& link : links) values.push_back(link.*part);
    result.*part = median(std::move(values));
  }
  return result;
}

/// What most pairs would have; 0 when nobody was asked.
int streams_of(const std::vector<std::string>& texts) {
  std::vector<int> all;
  for (const std::string& text : texts) {
    const json said = json::parse(text);
    for (const json& one : said.at("streams")) all.push_back(one.get<int>());
  }
  std::sort(all.begin(), all.end());
  return all.empty() ? 0 : all[(all.size() - 1) / 2];
}

plan::CostModel model_of(const std::vector<std::string>& texts) {
  plan::CostModel model;
  std::vector<plan::LinkCost> within, between;
  for (const std::string& text : texts) {
    const json said = json::parse(text);
    model.gamma = std::max(model.gamma, said.at("gamma").get<double>());
    if (said.contains("within")) within.push_back(link_of(said.at("within")));
    for (const json& link : said.at("links")) {
      between.push_back(link_of(link.at(2)));
      model.pairs[{link.at(0), link.at(1)}] = between.back();
    }
  }
  model.within = within.empty() ? typical(between) : typical(within);
  model.between = typical(between);
  return model;
}

/// On rank 0.
Tuned decide(const GroupImpl& group, const std::vector<std::string>& texts) {
  const Parts& parts = group.parts();
  const Config& config = parts.context->config;
  const Logger& log = parts.context->log;
  try {
    const plan::CostModel model = model_of(texts);
    const std::int64_t slice = config.slice_bytes > 0 ? config.slice_bytes : plan::kUsualSlice;
    tuning::Record record{parts.topology,
                          tuning::timestamp(),
                          "links measured when a group was made",
                          plan::to_text(model),
                          plan::rules_from(model, parts.hosts, slice),
                          "",
                          streams_of(texts)};
    const auto file = tuning::file_of(config.cache, parts.topology);
    const Status kept = config.cache.empty() ? Status::invalid("there is no cache folder (UNISONO_CACHE)")
                                             : tuning::write(file, record);
    log.info(fmt::format("links of {} hosts: {}; rules by them: {}; streams for large messages: {}; {}",
                         parts.hosts.back() + 1, record.constants,
                         record.rules.empty() ? "none, the built-in table is as good" : record.rules,
                         record.streams > 0 ? std::to_string(record.streams) : "not measured",
                         kept.ok() ? "kept in " + file.string() : "not kept: " + kept.message()));
    return {record.rules, false, record.streams, false};
  } catch (const std::exception& e) {  // a rank of another version
    log.warn(fmt::format("what ranks say of their links cannot be read, so the built-in table is used: {}", e.what()));
    return {};
  }
}

}  // namespace

Tuned measure_links(GroupImpl& group, bool count_streams) {
  const Parts& parts = group.parts();
  const ContextImpl& c = *parts.context;
  const std::string mine = measure_own(group, count_streams).dump();
  const group::Party party{*parts.store, parts.name + "/links", parts.rank,
                           group.size(), c.config.init_timeout, c.clock};
  return parse_tuned(value_or_throw(group::exchange_and_decide(party, mine, [&](const std::vector<std::string>& texts) {
                       return to_text(decide(group, texts));
                     })).decision);
}

}  // namespace unisono::detail
