#include "rendezvous/process_stat.h"

#include <fmt/format.h>
#include <signal.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <sstream>

namespace unisono::rendezvous {

std::optional<ProcessStat> process_stat(std::int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid), std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto open = text.find('('), close = text.rfind(')');  // a name may have both in it
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  ProcessStat found;
  found.name = text.substr(open + 1, close - open - 1);
  std::istringstream fields(text.substr(close + 1));
  std::string skipped;
  fields >> found.state >> found.parent;  // fields 3 and 4
  for (int field = 5; field < 22; field++) fields >> skipped;
  fields >> found.start_time;  // field 22
  if (!fields) return std::nullopt;
  return found;
}

bool process_has_ended(std::int64_t pid, std::uint64_t start_time) noexcept try {
  // Where /proc hides the processes of others (hidepid), this still sees them.
  if (::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH) return true;
  const auto stat = process_stat(pid);
  return stat && (stat->start_time != start_time || stat->state == 'Z' || stat->state == 'X');
} catch (const std::exception&) {  // no memory to read it
  return false;
}

}  // namespace unisono::rendezvous
