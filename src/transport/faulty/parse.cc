#include <fmt/format.h>

#include <charconv>

#include "transport/transports.h"

namespace unisono::transport {

namespace {

using namespace std::chrono_literals;

Status bad(std::string_view item, std::string_view expected) {
  return Status::invalid(fmt::format("fault \"{}\": {}", item, expected));
}

bool parse_number(std::string_view text, std::uint64_t& into, std::string_view& rest) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), into);
  rest = text.substr(static_cast<std::size_t>(end - text.data()));
  return error == std::errc{} && end != text.data();
}

Result<Duration> parse_duration(std::string_view item, std::string_view text) {
  struct Unit {
    std::string_view name;
    Duration length;
  };
  constexpr Unit kUnits[] = {{"ns", 1ns}, {"us", 1us}, {"ms", 1ms}, {"s", 1s}};
  std::uint64_t count = 0;
  std::string_view unit;
  if (parse_number(text, count, unit) && count <= 1000000000)
    for (const Unit& known : kUnits)
      if (unit == known.name) return Duration(known.length * static_cast<std::int64_t>(count));
  return bad(item, "a time such as 500us, 1ms or 2s is expected");
}

Status parse_item(std::string_view item, Faults& faults) {
  const auto equals = item.find('=');
  const std::string_view name = item.substr(0, equals);
  const std::string_view value = equals == std::string_view::npos ? "" : item.substr(equals + 1);
  if (name == "partial") {
    if (equals != std::string_view::npos) return bad(item, "\"partial\" takes no value");
    faults.partial = true;
    return {};
  }
  if (name == "delay") {
    auto delay = parse_duration(item, value);
    if (delay) faults.max_delay = *delay;
    return delay.status();
  }
  std::uint64_t* number = name == "seed"        ? &faults.seed
                          : name == "cut"       ? &faults.cut_after_bytes
                          : name == "blackhole" ? &faults.black_hole_after_bytes
                                                : nullptr;
  if (!number) return bad(item, "known are partial, delay=TIME, seed=N, cut=BYTES, blackhole=BYTES");
  std::string_view rest;
  if (!parse_number(value, *number, rest) || !rest.empty()) return bad(item, "a number is expected");
  return {};
}

}  // namespace

Result<Faults> parse_faults(std::string_view text) {
  Faults faults;
  while (!text.empty()) {
    const auto comma = text.find(',');
    UNISONO_TRY(parse_item(text.substr(0, comma), faults));
    text = comma == std::string_view::npos ? "" : text.substr(comma + 1);
  }
  return faults;
}

}  // namespace unisono::transport
