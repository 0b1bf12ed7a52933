#include "rendezvous/environment.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/debug_modes.h"
#include "base/log.h"
#include "rendezvous/endpoint.h"
#include "rendezvous/launch_environment.h"
#include "rendezvous/secret_source.h"

namespace unisono::rendezvous {
namespace {

Status bad(const char* name, std::string_view value, std::string_view expected) {
  return Status::invalid(fmt::format("{}=\"{}\": {}", name, value, expected));
}

Status read_text(const Environment& environment, const char* name, std::string& into) {
  if (auto text = environment(name)) into = std::move(*text);
  return {};
}

Status read_seconds(const Environment& environment, const char* name, Duration& into) {
  const auto text = environment(name);
  if (!text || text->empty()) return {};
  double seconds = 0;
  constexpr double kLongest = 9.0e9;  // what fits into 64 bits of nanoseconds
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), seconds);
  if (error == std::errc::result_out_of_range && text->find("e-") == std::string::npos) {  // too long for a double
    seconds = text->starts_with('-') ? 0 : kLongest;
    error = {};
  }
  if (error != std::errc{} || end != text->data() + text->size() || !(seconds > 0))
    return bad(name, *text, "expected a number of seconds above 0");
  into = Duration(static_cast<std::int64_t>(std::min(seconds, kLongest) * 1e9));
  return {};
}

/// Bytes, with an optional K, M or G (powers of 1024).
Status read_bytes(const Environment& environment, const char* name, std::int64_t& into) {
  const auto text = environment(name);
  if (!text || text->empty()) return {};
  std::int64_t value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  int shift = 0;
  if (stop + 1 == end) shift = *stop == 'K' ? 10 : *stop == 'M' ? 20 : *stop == 'G' ? 30 : -1;
  if (error != std::errc{} || (stop != end && shift <= 0) || value < 0 || value > (std::int64_t{1} << 32))
    return bad(name, *text, "expected a number of bytes such as 262144 or 256K");
  into = value << shift;
  return {};
}

Status read_flag(const Environment& environment, const char* name, bool& into) {
  const auto text = environment(name);
  if (!text || text->empty()) return {};
  if (*text != "0" && *text != "1") return bad(name, *text, "expected 0 or 1");
  into = *text == "1";
  return {};
}

/// As the XDG base directory specification has it; empty when nothing says where the user is at home.
std::string cache_folder(const Environment& environment) {
  const auto folder = [&](const char* name, std::string_view below) {
    const auto value = environment(name);
    return !value || value->empty() ? std::string{} : *value + std::string(below);
  };
  for (const auto& found :
       {folder("UNISONO_CACHE", ""), folder("XDG_CACHE_HOME", "/unisono"), folder("HOME", "/.cache/unisono")})
    if (!found.empty()) return found;
  return {};
}

Status read_settings(const Environment& environment, Config& c) {
  UNISONO_TRY(read_text(environment, "UNISONO_TRANSPORT", c.transport));
  if (!c.transport.empty() && c.transport != "shm" && c.transport != "tcp")
    return bad("UNISONO_TRANSPORT", c.transport, "expected shm or tcp");
  UNISONO_TRY(read_text(environment, "UNISONO_INTERFACE", c.interface));
  UNISONO_TRY(read_text(environment, "UNISONO_TCP_CONGESTION", c.tcp_congestion));
  UNISONO_TRY(read_text(environment, "UNISONO_ALGORITHM", c.algorithm));
  UNISONO_TRY(read_text(environment, "UNISONO_FAULT", c.fault));
  UNISONO_TRY(read_text(environment, "UNISONO_DEBUG", c.debug));
  UNISONO_TRY(parse_debug_modes(c.debug).status());
  UNISONO_TRY(read_text(environment, "UNISONO_TOPOLOGY", c.topology));
  UNISONO_TRY(read_text(environment, "UNISONO_CONSTANTS", c.constants));
  UNISONO_TRY(read_text(environment, "UNISONO_TUNING", c.tuning));
  if (c.tuning.empty()) c.tuning = "auto";
  if (c.tuning != "auto" && c.tuning != "cached" && c.tuning != "off")
    return bad("UNISONO_TUNING", c.tuning, "expected auto, cached or off");
  c.cache = cache_folder(environment);
  UNISONO_TRY(read_seconds(environment, "UNISONO_TIMEOUT", c.timeout));
  UNISONO_TRY(read_seconds(environment, "UNISONO_INIT_TIMEOUT", c.init_timeout));
  UNISONO_TRY(read_bytes(environment, "UNISONO_SLICE", c.slice_bytes));
  UNISONO_TRY(read_flag(environment, "UNISONO_ALLOW_INSECURE", c.allow_insecure));
  UNISONO_TRY(read_flag(environment, "UNISONO_STRICT", c.strict));
  UNISONO_TRY(read_flag(environment, "UNISONO_DETERMINISTIC", c.deterministic));
  UNISONO_TRY(read_flag(environment, "UNISONO_PEER_MEMORY", c.peer_memory));
  UNISONO_TRY(read_flag(environment, "UNISONO_SHARE_MEMORY", c.share_memory));
  std::int64_t streams = c.tcp_streams;
  if (auto r = read_integer(environment, "UNISONO_TCP_STREAMS", 1, 4, streams); !r) return r.status();
  c.tcp_streams = static_cast<int>(streams);
  std::int64_t spin = c.spin;
  if (auto r = read_integer(environment, "UNISONO_SPIN", -1, 1 << 30, spin); !r) return r.status();
  c.spin = static_cast<int>(spin);
  auto secret = read_secret(environment);
  if (!secret) return secret.status();
  c.secret = secret->reveal();
  return {};
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

Environment without(Environment environment, std::vector<std::string> names) {
  return
      [environment = std::move(environment), names = std::move(names)](const char* name) -> std::optional<std::string> {
        if (std::ranges::find(names, name) != names.end()) return std::nullopt;
        return environment(name);
      };
}

Result<bool> read_integer(const Environment& environment, const char* name, std::int64_t low, std::int64_t high,
                          std::int64_t& into) {
  const auto text = environment(name);
  if (!text || text->empty()) return false;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), into);
  if (error != std::errc{} || end != text->data() + text->size() || into < low || into > high)
    return bad(name, *text, fmt::format("expected a whole number from {} to {}", low, high));
  return true;
}

Result<std::string> master_address(const Environment& environment) {
  const auto host = environment("MASTER_ADDR");
  if (!host || host->empty())
    return Status::invalid(
        "MASTER_ADDR is not set: set it to the address of rank 0 (and MASTER_PORT to a free port there), "
        "or set UNISONO_INIT_METHOD");
  if (!environment("MASTER_PORT"))
    return Status::invalid(
        fmt::format("MASTER_ADDR is \"{}\", and MASTER_PORT is not set: set it to a free port there", *host));
  std::int64_t port = 0;
  if (auto s = read_integer(environment, "MASTER_PORT", 1, 65535, port); !s)
    return s.status();
  else if (!*s)
    return Status::invalid("MASTER_PORT is empty: set it to a free port of rank 0's host");
  // MASTER_PORT itself is torch.distributed's: its rank 0, or torchrun's agent, listens there.
  port += port == 65535 ? -1 : 1;
  return "tcp://" + to_string(Endpoint{*host, static_cast<std::uint16_t>(port), ""});
}

Result<Config> config_from(const Environment& environment, const Ancestry& ancestry) {
  Config c;
  auto world = detect_world(environment, ancestry);
  if (!world) return world.status();
  UNISONO_TRY(read_settings(without(environment, world->left_over), c));
  c.rank = world->rank;
  c.size = world->size;
  c.local_size = world->local_size;
  c.launcher = world->launcher;
  c.job = world->job;
  c.init_method = world->init_method;
  if (!world->warning.empty()) Logger().warn(world->warning);
  return c;
}

}  // namespace unisono::rendezvous

namespace unisono {

Config Config::settings_from_env() {
  Config c;
  throw_status(rendezvous::read_settings(rendezvous::process_environment(), c));
  return c;
}

Config Config::from_env() {
  return value_or_throw(rendezvous::config_from(rendezvous::process_environment(), rendezvous::process_ancestry()));
}

}  // namespace unisono
