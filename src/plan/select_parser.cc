#include "plan/select_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "plan/trimmed.h"

namespace unisono::plan {

namespace {

// Cuts `text` at `separator`; all parts are views into it, so their place can be told.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> names_for(Collective collective) {
  std::vector<std::string_view> names;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.collective == collective) names.push_back(algorithm.name);
  }
  return names;
}

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (int i = 0; i < kCollectives; i++) names.push_back(name_of(static_cast<Collective>(i)));
  return names;
}

class Parser {
 public:
  Parser(std::string_view text, Origin origin) : text_(text), origin_(origin) {}

  Result<std::vector<Rule>> run() {
    for (const std::string_view rule : split(text_, ';')) {
      if (!rule.empty()) UNISONO_TRY(parse_rule(rule));
    }
    return std::move(rules_);
  }

 private:
  // `part` is a view into the text, or empty at its place.
  Status error(std::string_view part, const std::string& what) const {
    const auto column = static_cast<std::size_t>(part.data() - text_.data());
    std::string mark(std::max<std::size_t>(part.size(), 1), '~');
    mark.front() = '^';
    return Status::invalid(
        fmt::format("algorithm table: {}\n  {}\n  {}{}", what, text_, std::string(column, ' '), mark));
  }

  Status parse_rule(std::string_view text) {
    const auto colon = text.find(':');
    if (colon == std::string_view::npos) {
      return error(text,
                   "a rule is collective:from-to=algorithm, for example all_reduce:0-64K=recursive_doubling,64K-=ring");
    }
    Rule rule;
    rule.origin = origin_;
    rule.max_ranks = std::numeric_limits<std::int32_t>::max();
    UNISONO_TRY(parse_head(trimmed(text.substr(0, colon)), rule));
    for (const std::string_view range : split(text.substr(colon + 1), ',')) UNISONO_TRY(parse_range(range, rule));
    return {};
  }

  // collective[@place][[ranks]]
  Status parse_head(std::string_view head, Rule& rule) {
    if (const auto open = head.find('['); open != std::string_view::npos) {
      if (head.back() != ']') return error(head.substr(open), "the range of ranks is not closed with \"]\"");
      UNISONO_TRY(parse_ranks(trimmed(head.substr(open + 1, head.size() - open - 2)), rule));
      head = trimmed(head.substr(0, open));
    }
    if (const auto at = head.find('@'); at != std::string_view::npos) {
      const std::string_view place = trimmed(head.substr(at + 1));
      if (place != "shm" && place != "net" && place != "hosts" && place != "nodes")
        return error(place, fmt::format("no place \"{}\": there are shm, net, hosts and nodes", place));
      rule.shm = place == "shm";
      rule.net = place == "net";
      rule.hosts = place == "hosts";
      rule.nodes = place == "nodes";
      head = trimmed(head.substr(0, at));
    }
    const auto collective = collective_from_name(head);
    if (!collective) {
      return error(head, fmt::format("no collective \"{}\": there are {}", head, fmt::join(collective_names(), ", ")));
    }
    rule.collective = *collective;
    return {};
  }

  // "2", "3-4", "5-"
  Status parse_ranks(std::string_view text, Rule& rule) {
    const auto dash = text.find('-');
    const auto number = [&](std::string_view digits, std::int32_t& value) {
      const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
      return failed == std::errc{} && end == digits.data() + digits.size() && value > 0;
    };
    bool ok = number(text.substr(0, dash), rule.min_ranks);
    if (dash == std::string_view::npos) {
      rule.max_ranks = rule.min_ranks;
    } else if (dash + 1 < text.size()) {
      ok = ok && number(text.substr(dash + 1), rule.max_ranks);
    }
    if (!ok) return error(text, fmt::format("\"{}\" is not a range of ranks such as 2, 3-4 or 5-", text));
    if (rule.min_ranks > rule.max_ranks) return error(text, fmt::format("the range of ranks \"{}\" is empty", text));
    return {};
  }

  // from-to=algorithm; an empty `to` is without end
  Status parse_range(std::string_view text, const Rule& head) {
    const auto equals = text.find('=');
    const auto dash = text.find('-');
    if (equals == std::string_view::npos || dash == std::string_view::npos || dash > equals) {
      return error(text, fmt::format("\"{}\" is not from-to=algorithm, for example 0-64K=ring or 64K-=ring", text));
    }
    Rule rule = head;
    rule.to = std::numeric_limits<std::int64_t>::max();
    UNISONO_TRY(parse_bound(trimmed(text.substr(0, dash)), rule.from));
    const std::string_view end = trimmed(text.substr(dash + 1, equals - dash - 1));
    if (!end.empty()) UNISONO_TRY(parse_bound(end, rule.to));
    if (rule.from >= rule.to) {
      return error(text.substr(0, equals),
                   fmt::format("the range {} is empty: from must be less than to", text.substr(0, equals)));
    }
    const std::string_view name = trimmed(text.substr(equals + 1));
    rule.algorithm = find_algorithm(rule.collective, name);
    if (rule.algorithm == nullptr) {
      return error(name, fmt::format("no algorithm \"{}\" for {}: there are {}", name, name_of(rule.collective),
                                     fmt::join(names_for(rule.collective), ", ")));
    }
    if (needs_one_host(rule.algorithm->place) && !rule.shm && !rule.nodes) {
      return error(name, fmt::format("{} needs shared memory and can never run under a rule for {}", name,
                                     rule.hosts ? "hosts" : "net"));
    }
    if (rule.algorithm->place == Place::several_hosts && !rule.net && !rule.hosts) {
      return error(name, fmt::format("{} needs several hosts and can never run under a rule for {}", name,
                                     rule.nodes ? "nodes" : "shm"));
    }
    rules_.push_back(rule);
    return {};
  }

  Status parse_bound(std::string_view text, std::int64_t& bound) {
    const Result<std::int64_t> size = parse_size(text);
    if (!size) return error(text, size.status().message());
    bound = *size;
    return {};
  }

  std::string_view text_;
  Origin origin_;
  std::vector<Rule> rules_;
};

}  // namespace

Result<std::vector<Rule>> parse_rules(std::string_view text, Origin origin) { return Parser(text, origin).run(); }

}  // namespace unisono::plan
