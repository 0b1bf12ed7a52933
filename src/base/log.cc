#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace unisono {

struct Logger::Sink {
  spdlog::logger logger;
};

namespace {
spdlog::level::level_enum to_spdlog(LogLevel level) {
  constexpr spdlog::level::level_enum levels[] = {spdlog::level::trace, spdlog::level::debug, spdlog::level::info,
                                                  spdlog::level::warn,  spdlog::level::err,   spdlog::level::off};
  return levels[static_cast<std::size_t>(level)];
}

LogLevel level_from_environment() {
  const char* text = std::getenv("UNISONO_LOG");
  const std::string_view name = text ? text : "";
  if (name == "trace") return LogLevel::trace;
  if (name == "debug") return LogLevel::debug;
  if (name == "info") return LogLevel::info;
  if (name == "error") return LogLevel::error;
  if (name == "off") return LogLevel::off;
  return LogLevel::warn;
}
}  // namespace

Logger::Logger() : Logger(level_from_environment(), "") {}

Logger::Logger(LogLevel level, std::string prefix) : level_(level), prefix_(std::move(prefix)) {
  // spdlog::logger without its registry: no global state, and several of them in one process do not meet.
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  sink_ = std::make_shared<Sink>(Sink{spdlog::logger("unisono", std::move(sink))});
  sink_->logger.set_pattern("[%H:%M:%S.%e] unisono %^%l%$: %v");
  sink_->logger.set_level(to_spdlog(level));
}

Logger Logger::with_prefix(std::string prefix) const {
  Logger copy = *this;
  copy.prefix_ = std::move(prefix);
  return copy;
}

void Logger::log(LogLevel level, std::string_view message) const {
  if (!enabled(level)) return;
  if (prefix_.empty())
    sink_->logger.log(to_spdlog(level), message);
  else
    sink_->logger.log(to_spdlog(level), "{}: {}", prefix_, message);
}

}  // namespace unisono
