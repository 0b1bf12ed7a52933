#pragma once
/// What a rank tells `unisono run`, so that it can say which rank's failure was the cause of the
/// others'.

#include <cstdint>
#include <string>
#include <string_view>

namespace unisono {

/// A datagram to the launcher's abstract socket, whose name is in UNISONO_RUN_SOCKET: text, four
/// fields with spaces between.
struct RunReport {
  int rank = -1;         ///< UNISONO_RANK of the sender
  std::int64_t pid = 0;  ///< of the sender, as it sees itself
  std::int64_t culprit =
      0;  ///< the process that ended, left or aborted, which made the sender's call fail; 0: only to say who has this pid
  std::string host;  ///< the culprit's

  std::string encode() const;
  /// False when `text` is not one.
  bool decode(std::string_view text);
};

/// Send one, if `unisono run` started this process. The launcher has it when this returns, so an
/// exit afterwards comes later. Errors are ignored: the launcher then goes by the order of ends.
/// Blocks for at most a second. Thread-safety: any thread.
void report_to_run(std::int64_t culprit = 0, const std::string& host = {}) noexcept;

}  // namespace unisono
