#pragma once
/// One logger, never on the hot path. Level from UNISONO_LOG (error, warn, info, debug, trace; default warn).
/// Thread-safety: a Logger may be used from any thread.

#include <memory>
#include <string>
#include <string_view>

namespace unisono {

enum class LogLevel : unsigned char { trace, debug, info, warn, error, off };

/// A sink with a prefix such as "rank 3". Copies share the sink. Writes lines to stderr.
class Logger {
 public:
  Logger();  ///< level from the environment, no prefix
  Logger(LogLevel level, std::string prefix);
  Logger with_prefix(std::string prefix) const;
  bool enabled(LogLevel level) const noexcept { return level >= level_; }
  void log(LogLevel level, std::string_view message) const;
  void info(std::string_view m) const { log(LogLevel::info, m); }
  void warn(std::string_view m) const { log(LogLevel::warn, m); }
  void debug(std::string_view m) const { log(LogLevel::debug, m); }
  void error(std::string_view m) const { log(LogLevel::error, m); }

 private:
  struct Sink;
  std::shared_ptr<Sink> sink_;
  LogLevel level_ = LogLevel::warn;
  std::string prefix_;
};

}  // namespace unisono
