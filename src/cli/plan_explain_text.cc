/// What `unisono plan --explain` prints.

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/plan_explain.h"

namespace unisono::cli {

namespace {

std::string time_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string time_text(const std::optional<double>& seconds) { return seconds ? time_text(*seconds) : "-"; }

std::string steps_text(const plan::Cost& cost) {
  return cost.steps == plan::Cost::kNotCounted ? "-" : std::to_string(cost.steps);
}

/// A reason without what was passed over.
std::string_view rule_of(const plan::Choice& choice) {
  return std::string_view(choice.reason).substr(0, choice.reason.find("; "));
}

/// Its parts, one a line.
void print_reason(std::string_view reason) {
  for (const char* title = "why"; !reason.empty(); title = "") {
    const std::size_t end = std::min(reason.find("; "), reason.size());
    fmt::print("  {:<6} {}\n", title, reason.substr(0, end));
    reason.remove_prefix(std::min(end + 2, reason.size()));
  }
}

void print_constants(const Explanation& said, const ExplainRequest& request) {
  if (said.record) {
    fmt::print("\nmeasured for this layout ({}, {}), among\n", said.record->by, said.record->made);
    for (std::size_t at = 0; at < said.record->topology.size();) {
      const std::size_t end = said.record->topology.find('\n', at);
      fmt::print("  {}\n", said.record->topology.substr(at, end - at));
      at = end + 1;
    }
  }
  if (said.constants) {
    fmt::print("\nconstants ({}): alpha, gap, beta\n  {}\n", said.origin, plan::to_text(*said.constants));
  } else if (!said.question.one_host) {
    fmt::print(
        "\nno constants are known: a group of such hosts measures them when it is made ({})\n",
        request.config.tuning == "auto" ? "UNISONO_TUNING=auto" : "not with UNISONO_TUNING=" + request.config.tuning);
  } else if (!said.record) {
    fmt::print("\nnothing was measured for {} ranks on this host: unisono bench --tune -n {}\n", said.question.ranks,
               said.question.ranks);
  }
}

void print_candidates(const Explanation& said) {
  bool any = false;
  for (const PossibleAlgorithm& c : said.candidates) any = any || c.measured;
  const std::string head = any ? fmt::format("measured at {}", plan::format_size(said.measured_bytes)) : "measured";
  fmt::print("\n  {:<22} {:>6} {:>7}  {:>10}  {:>18}\n", "algorithm", "steps", "bytes", "expected", head);
  for (const PossibleAlgorithm& c : said.candidates) {
    const bool competes = said.rival && c.algorithm == said.rival->algorithm;
    fmt::print("{} {:<22} {:>6} {:>7.4g}  {:>10}  {:>18}\n",
               c.algorithm == said.choice.algorithm ? '*'
               : competes                           ? '+'
                                                    : ' ',
               c.algorithm->name, steps_text(c.cost), c.cost.volume, time_text(c.expected), time_text(c.measured));
  }
  fmt::print("  * would run{}; bytes: by the busiest rank, as a multiple of {}\n",
             said.rival ? ", + competes with it" : "", plan::format_size(said.question.bytes));
}

}  // namespace

void print_text(const Explanation& said, const ExplainRequest& request) {
  const plan::Question& q = said.question;
  const std::string cores =
      said.cores ? fmt::format(" on {} core{}", *said.cores, *said.cores == 1 ? "" : "s") : std::string();
  fmt::print("{} of {} bytes between {} ranks {}{}: {}{}\n", name_of(q.collective), plan::format_size(q.bytes), q.ranks,
             q.one_host ? "that share memory" : "over a network", cores, said.choice.algorithm->name,
             said.rival ? fmt::format(" or {}", said.rival->algorithm->name) : "");
  print_reason(said.choice.reason);
  if (said.rival)
    fmt::print(
        "  or     {}: both are timed while the program calls, and the faster one runs. Where ranks cannot read each "
        "other's memory (unisono doctor) it is {} alone\n",
        rule_of(*said.rival), said.choice.algorithm->name);
  fmt::print("  what   {} ({})\n", said.choice.algorithm->summary, said.choice.algorithm->source);
  if (said.goes_inline)
    fmt::print(
        "  but    so little travels with the announcement of the operation, without an algorithm (inline); this "
        "one runs where counts differ between ranks, and where it is named\n");
  print_constants(said, request);
  print_candidates(said);
  fmt::print("\nthe table for {}, a later line wins:\n", name_of(q.collective));
  for (const ListedRule& r : said.rules)
    fmt::print("  {}{}\n", plan::to_text(r.rule), r.origin == "built-in" ? "" : fmt::format("   ({})", r.origin));
}

void print_json(const Explanation& said) {
  const plan::Question& q = said.question;
  nlohmann::ordered_json j;
  j["collective"] = name_of(q.collective);
  j["ranks"] = q.ranks;
  j["bytes"] = q.bytes;
  j["shares_memory"] = q.one_host;
  j["cores"] = said.cores ? nlohmann::ordered_json(*said.cores) : nlohmann::ordered_json();
  j["algorithm"] = said.choice.algorithm->name;
  j["reason"] = said.choice.reason;
  j["rival"] = said.rival ? nlohmann::ordered_json(said.rival->algorithm->name) : nlohmann::ordered_json();
  j["inline"] = said.goes_inline;
  j["constants"] = said.constants ? plan::to_text(*said.constants) : "";
  j["candidates"] = nlohmann::ordered_json::array();
  const auto us = [](const std::optional<double>& s) {
    return s ? nlohmann::ordered_json(*s * 1e6) : nlohmann::ordered_json();
  };
  for (const PossibleAlgorithm& c : said.candidates)
    j["candidates"].push_back(
        {{"algorithm", c.algorithm->name},
         {"steps",
          c.cost.steps == plan::Cost::kNotCounted ? nlohmann::ordered_json() : nlohmann::ordered_json(c.cost.steps)},
         {"volume", c.cost.volume},
         {"expected_us", us(c.expected)},
         {"measured_us", us(c.measured)}});
  j["rules"] = nlohmann::ordered_json::array();
  for (const ListedRule& r : said.rules) j["rules"].push_back({{"rule", plan::to_text(r.rule)}, {"origin", r.origin}});
  fmt::print("{}\n", j.dump());
}

}  // namespace unisono::cli
