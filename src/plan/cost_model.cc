#include "plan/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "plan/trimmed.h"

namespace unisono::plan {

namespace {

constexpr double kMicro = 1e-6, kNano = 1e-9;

std::string text_of(const LinkCost& link) {
  return fmt::format("{:.3g}us,{:.3g}us,{:.3g}ns/B", link.alpha / kMicro, link.gap / kMicro, link.beta / kNano);
}

/// The part up to the separator; `text` goes on behind it.
std::string_view cut(std::string_view& text, char separator) {
  const auto at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return trimmed(part);
}

Status read(std::string_view text, std::string_view unit, double scale, double& into) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), into);
  const auto rest = text.substr(static_cast<std::size_t>(end - text.data()));
  if (failed != std::errc{} || rest != unit || !std::isfinite(into) || into < 0)
    return Status::invalid(fmt::format("\"{}\" is not a number of {}", text, unit));
  into *= scale;
  return {};
}

Status read(std::string_view text, LinkCost& into) {
  UNISONO_TRY(read(cut(text, ','), "us", kMicro, into.alpha));
  UNISONO_TRY(read(cut(text, ','), "us", kMicro, into.gap));
  return read(cut(text, ','), "ns/B", kNano, into.beta);
}

Status read_pair(std::string_view name, std::string_view value, CostModel& into) {
  std::pair<std::int32_t, std::int32_t> hosts;
  const auto number = [](std::string_view text, std::int32_t& n) {
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), n);
    return failed == std::errc{} && end == text.data() + text.size() && n >= 0;
  };
  std::string_view rest = name;
  if (!number(cut(rest, '-'), hosts.first) || !number(rest, hosts.second) || hosts.first >= hosts.second)
    return Status::invalid(fmt::format("\"{}\" is neither gamma, within, between, nor two hosts such as 0-1", name));
  return read(value, into.pairs[hosts]);
}

}  // namespace

const LinkCost& CostModel::link(std::int32_t a, std::int32_t b) const {
  if (a == b) return within;
  const auto found = pairs.find({std::min(a, b), std::max(a, b)});
  return found == pairs.end() ? between : found->second;
}

std::string to_text(const CostModel& model) {
  std::string text = fmt::format("gamma={:.3g}ns/B; within={}; between={}", model.gamma / kNano, text_of(model.within),
                                 text_of(model.between));
  for (const auto& [hosts, link] : model.pairs)
    text += fmt::format("; {}-{}={}", hosts.first, hosts.second, text_of(link));
  return text;
}

Result<CostModel> parse_cost_model(std::string_view text) {
  CostModel model;
  while (!text.empty()) {
    std::string_view value = cut(text, ';');
    if (value.empty()) continue;
    const std::string_view name = cut(value, '=');
    UNISONO_TRY(name == "gamma"     ? read(trimmed(value), "ns/B", kNano, model.gamma)
                : name == "within"  ? read(value, model.within)
                : name == "between" ? read(value, model.between)
                                    : read_pair(name, value, model));
  }
  return model;
}

}  // namespace unisono::plan
