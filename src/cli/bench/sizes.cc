#include "cli/bench/sizes.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "plan/select.h"

namespace unisono::cli {
namespace {

std::string_view trimmed_size(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// As split at each separator, empty parts included.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto at = text.find(separator);
    parts.push_back(trimmed_size(text.substr(0, at)));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

/// From one size of a range to the next.
struct SizeStep {
  std::int64_t factor = 1, addend = 0;
  /// At most `last`, or past it: it cannot overflow.
  std::int64_t after(std::int64_t size, std::int64_t last) const {
    if (factor > 1) return size > last / factor ? std::numeric_limits<std::int64_t>::max() : size * factor;
    return addend > last - size ? std::numeric_limits<std::int64_t>::max() : size + addend;
  }
};

Result<SizeStep> parse_step(std::string_view text, std::string_view range) {
  constexpr std::string_view kHow = "the step of a range is a factor from x2 on, or bytes to add: 8:64M:x2, 8:64K:+4K";
  SizeStep step;
  if (text.starts_with('x') || text.starts_with('X') || text.starts_with('*')) {
    const std::string_view digits = text.substr(1);
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), step.factor);
    if (failed == std::errc{} && end == digits.data() + digits.size() && step.factor >= 2) return step;
  } else if (text.starts_with('+')) {
    if (const auto addend = plan::parse_size(text.substr(1)); addend && *addend > 0) {
      step.addend = *addend;
      return step;
    }
  }
  return Status::invalid(fmt::format("\"{}\" in \"{}\" is not a step: {}", text, range, kHow));
}

Status add_range(std::string_view text, std::vector<std::int64_t>& sizes) {
  const auto parts = parts_of(text, ':');
  if (parts.size() != 3)
    return Status::invalid(
        fmt::format("\"{}\" is not a range: write FROM:TO:xFACTOR or FROM:TO:+STEP, "
                    "for example 8:64M:x2 or 8:64K:+4K",
                    text));
  const auto from = plan::parse_size(parts[0]);
  if (!from) return from.status().with_context(fmt::format("the range \"{}\"", text));
  const auto to = plan::parse_size(parts[1]);
  if (!to) return to.status().with_context(fmt::format("the range \"{}\"", text));
  const auto step = parse_step(parts[2], text);
  if (!step) return step.status();
  if (*from > *to)
    return Status::invalid(fmt::format("the range \"{}\" descends: write the smaller size first, {}:{}:{}", text,
                                       parts[1], parts[0], parts[2]));
  if (*from == 0 && step->factor > 1)
    return Status::invalid(fmt::format(
        "the range \"{}\" does not move: 0 times {} is 0; begin with 1, or add (0:64K:+4K)", text, step->factor));
  for (std::int64_t size = *from; size <= *to; size = step->after(size, *to)) {
    if (sizes.size() >= kMostSizes)
      return Status::invalid(
          fmt::format("\"{}\" makes more than {} sizes: take a larger step, or a factor (x2)", text, kMostSizes));
    sizes.push_back(size);
  }
  return {};
}

}  // namespace

Result<std::vector<std::int64_t>> parse_sizes(std::string_view text) {
  std::vector<std::int64_t> sizes;
  for (const std::string_view part : parts_of(text, ',')) {
    if (part.empty())
      return Status::invalid(fmt::format("\"{}\" has an empty size: write 8,64K,1M, or a range, 8:64M:x2", text));
    if (part.find(':') != std::string_view::npos) {
      UNISONO_TRY(add_range(part, sizes));
      continue;
    }
    const auto size = plan::parse_size(part);
    if (!size) return size.status();
    sizes.push_back(*size);
  }
  return sizes;
}

}  // namespace unisono::cli
