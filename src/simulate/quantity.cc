#include "simulate/quantity.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

namespace unisono::simulate {

namespace {

struct Unit {
  std::string_view name;
  double per_second;  ///< bytes, for rates. Whole numbers: then 5us is the double that is nearest to 5e-6
};

constexpr std::array<Unit, 5> kTimes{{{"s", 1}, {"ms", 1e3}, {"us", 1e6}, {"ns", 1e9}, {"ps", 1e12}}};
constexpr std::array<Unit, 6> kRates{
    {{"Gbit/s", 125e6}, {"Mbit/s", 125e3}, {"kbit/s", 125}, {"GB/s", 1e9}, {"MB/s", 1e6}, {"kB/s", 1e3}}};

/// The number in front, and what is left of `text` behind it.
std::optional<double> take_number(std::string_view& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
  if (error != std::errc{} || !std::isfinite(value) || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::string with_unit(double seconds, std::string_view suffix) {
  if (seconds == 0) return fmt::format("0{}", suffix.empty() ? "s" : "ns/B");
  for (const Unit& unit : kTimes)
    if (seconds * unit.per_second >= 0.9999999 || unit.name == "ps")
      return fmt::format("{:.6g}{}{}", seconds * unit.per_second, unit.name, suffix);
  return {};
}

}  // namespace

Result<double> parse_number(std::string_view text) {
  std::string_view rest = text;
  const auto value = take_number(rest);
  if (!value || !rest.empty()) return Status::invalid(fmt::format("\"{}\" is not a number, such as 2 or 0.5", text));
  return *value;
}

Result<double> parse_time(std::string_view text) {
  std::string_view rest = text;
  if (const auto value = take_number(rest)) {
    if (rest.empty() && *value == 0) return 0.0;
    for (const Unit& unit : kTimes)
      if (rest == unit.name) return *value / unit.per_second;
  }
  return Status::invalid(fmt::format("\"{}\" is not a time: write 1.2us (s, ms, us, ns, ps)", text));
}

Result<double> parse_time_per_byte(std::string_view text) {
  std::string_view rest = text;
  if (const auto value = take_number(rest)) {
    if (rest.empty() && *value == 0) return 0.0;
    for (const Unit& unit : kRates)
      if (rest == unit.name && *value > 0) return 1 / (*value * unit.per_second);
    if (rest.ends_with("/B")) {
      rest.remove_suffix(2);
      for (const Unit& unit : kTimes)
        if (rest == unit.name) return *value / unit.per_second;
    }
  }
  return Status::invalid(
      fmt::format("\"{}\" is not a time per byte: write 0.04ns/B, or a rate: 10Gbit/s, 12GB/s", text));
}

std::string format_time(double seconds) { return with_unit(seconds, ""); }
std::string format_time_per_byte(double seconds) { return with_unit(seconds, "/B"); }

}  // namespace unisono::simulate
